#include "kserve/request_parameters.h"

#include <optional>

#include <stoker/base/str_cat.h>

namespace stoker::serve {
namespace {

using base::StrCat;
using host::ParameterValue;

std::optional<uint64_t> AsUnsigned(const ParameterValue& value) {
  if (const auto* number = std::get_if<uint64_t>(&value)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value); number != nullptr && *number >= 0)
    return static_cast<uint64_t>(*number);
  return std::nullopt;
}

base::Status WrongType(std::string_view name, std::string_view wanted) {
  return base::InvalidArgument(StrCat("parameter '", name, "' must be ", wanted));
}

base::Status SetCorrelation(const ParameterValue& value, host::InferRequest* request) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (text->size() > kCorrelationTextMax) {
      return base::Unimplemented(StrCat("parameter 'sequence_id' is ", text->size(), " bytes long, at most ",
                                        kCorrelationTextMax, " are supported"));
    }
    if (text->empty()) {
      request->correlation = std::monostate();
    } else {
      request->correlation = *text;
    }
    return base::OkStatus();
  }
  const auto number = AsUnsigned(value);
  if (!number) return WrongType("sequence_id", "an unsigned integer or a string");
  if (*number == 0) {
    request->correlation = std::monostate();
  } else {
    request->correlation = *number;
  }
  return base::OkStatus();
}

base::Status SetUnsigned(std::string_view name, const ParameterValue& value, uint64_t* field) {
  const auto number = AsUnsigned(value);
  if (!number) return WrongType(name, "an unsigned integer");
  *field = *number;
  return base::OkStatus();
}

base::Status SetFlag(std::string_view name, const ParameterValue& value, bool* field) {
  const auto* flag = std::get_if<bool>(&value);
  if (flag == nullptr) return WrongType(name, "true or false");
  *field = *flag;
  return base::OkStatus();
}

}  // namespace

bool IsReservedParameter(std::string_view name) {
  return name == "sequence_id" || name == "sequence_start" || name == "sequence_end" || name == "priority" ||
         name == "timeout";
}

base::Status ApplyParameter(std::string_view name, ParameterValue value, host::InferRequest* request) {
  if (name == "sequence_id") return SetCorrelation(value, request);
  if (name == "sequence_start") return SetFlag(name, value, &request->sequence_start);
  if (name == "sequence_end") return SetFlag(name, value, &request->sequence_end);
  if (name == "priority") return SetUnsigned(name, value, &request->priority);
  if (name == "timeout") return SetUnsigned(name, value, &request->timeout_us);
  if (name.starts_with("triton_")) {
    return base::InvalidArgument(StrCat(
        "parameter keys starting with 'triton_' are reserved for Triton usage, got ", base::Quoted(name)));
  }
  request->parameters.push_back({std::string(name), std::move(value)});
  return base::OkStatus();
}

}  // namespace stoker::serve
