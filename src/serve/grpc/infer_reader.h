#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <stoker/base/bytes.h>
#include <stoker/base/status.h>
#include <stoker/host/model.h>
#include <stoker/host/request.h>
#include <stoker/serve/door.h>

namespace stoker::serve {

/// What must be known of a ModelInferRequest before its model is looked up. Views of the message.
struct InferEnvelope {
  std::string_view model_name, model_version, id;
  size_t parameters = 0, inputs = 0, outputs = 0, raw_contents = 0;  // how many there are
};

/// An output whose classes are asked for instead of its values.
struct ClassificationWish {
  size_t output = 0;  // into Model::outputs()
  uint64_t classes = 0;
};

struct GrpcInferCall {
  std::unique_ptr<host::InferRequest> request;
  std::vector<ClassificationWish> classifications;
  bool empty_final_response = false;  // triton_enable_empty_final_response
};

/// The status of a message that is no message of its type: the only kInternal of these functions.
base::Status MalformedMessage();

/// Reads the outer fields of a serialised ModelInferRequest; kInternal when it is none.
base::Result<InferEnvelope> ReadEnvelope(const base::Bytes& message);

/// Reads the whole request for `model`. Names are views of `message`, raw contents are slices of it;
/// both stay alive with the request. Typed contents are converted; integers beyond their type are
/// kInvalidArgument. Unknown fields are skipped, repeated numbers may be packed or not. More tensors or
/// parameters than `options` allow are kResourceExhausted.
base::Result<GrpcInferCall> ReadInfer(const InferEnvelope& envelope, const host::ModelRef& model,
                                      const base::Bytes& message, const DoorOptions& options);

}  // namespace stoker::serve
