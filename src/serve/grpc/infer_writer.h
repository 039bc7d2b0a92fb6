#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <stoker/base/bytes.h>
#include <stoker/base/status.h>
#include <stoker/host/model.h>
#include <stoker/host/request.h>

#include "grpc/infer_reader.h"

namespace stoker::serve {

/// Everything that is needed to write the answers to one request once the request itself is gone.
struct GrpcAnswerContext {
  host::ModelRef model;
  std::string id;
  std::vector<ClassificationWish> classifications;
  size_t classes_elements_max = 0;
  bool stream = false;  // ModelStreamInferResponse around it, with the parameter triton_final_response
};

/// Messages up to this many bytes are written as one piece; larger ones share the tensors' memory.
inline constexpr size_t kOnePieceBytesMax = 16 << 10;

/// Serialises a successful response: the parts of one message. kInvalidArgument when an output cannot
/// be classified, kResourceExhausted when the message would pass protobuf's 2 GiB.
base::Result<std::vector<base::Bytes>> WriteInferResponse(const GrpcAnswerContext& context,
                                                          host::InferResponse response);

/// A ModelStreamInferResponse that carries an error, and the id of the request it answers.
std::vector<base::Bytes> WriteStreamError(std::string_view id, std::string_view message);

/// Bytes of tensors that WriteInferResponse would have to sort: how much work it is.
size_t ClassificationBytes(const GrpcAnswerContext& context, const host::InferResponse& response);

}  // namespace stoker::serve
