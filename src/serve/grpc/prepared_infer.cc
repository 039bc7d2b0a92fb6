#include "grpc/prepared_infer.h"

#include <string>
#include <utility>

#include <stoker/base/str_cat.h>

namespace stoker::serve {

base::Result<host::ModelRef> FindModel(const host::Host& host, std::string_view name,
                                       std::string_view version) {
  const std::string_view digits = version.substr(version.starts_with('-') ? 1 : 0);
  const bool number = !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
  if (number && version.starts_with('-')) {
    return base::InvalidArgument(base::StrCat("invalid model version specified '", version.substr(0, 32),
                                              "' , version should be an integral value > 0"));
  }
  return host.Find(name, version);
}

base::Result<PreparedInfer> PrepareInfer(const DoorContext& context, const DoorOptions& options,
                                         const InferEnvelope& envelope, const base::Bytes& message) {
  STOKER_ASSIGN_OR_RETURN(auto model, FindModel(*context.host, envelope.model_name, envelope.model_version));
  STOKER_ASSIGN_OR_RETURN(auto call, ReadInfer(envelope, model, message, options));
  PreparedInfer prepared;
  prepared.answer.id = call.request->id;
  prepared.answer.classifications = std::move(call.classifications);
  prepared.answer.classes_elements_max = options.classes_elements_max;
  prepared.answer.model = std::move(model);
  prepared.call = std::move(call);
  return prepared;
}

}  // namespace stoker::serve
