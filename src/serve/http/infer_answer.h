#pragma once

#include <string>
#include <string_view>

#include <stoker/base/status.h>
#include <stoker/host/model.h>
#include <stoker/host/request.h>
#include <stoker/net/compression.h>
#include <stoker/net/http_message.h>
#include <stoker/serve/door.h>

#include "http/infer_parser.h"

namespace stoker::serve {

/// Everything that is needed to write an answer once the request itself is gone.
struct HttpAnswerContext {
  host::ModelRef model;
  std::string id;
  HttpAnswerForm form;
  net::ContentCoding coding = net::ContentCoding::kIdentity;
  size_t classes_elements_max = 0;
};

/// Writes a successful response: JSON, then the binary blocks (which share the tensors' memory).
base::Result<net::HttpResponse> WriteInferAnswer(const HttpAnswerContext& context,
                                                 host::InferResponse response);

/// Bytes of tensors that WriteInferAnswer would turn into JSON text: how much work it is.
size_t JsonTensorBytes(const HttpAnswerContext& context, const host::InferResponse& response);

/// {"error": message} with the status that `code` maps to.
net::HttpResponse ErrorAnswer(base::StatusCode code, std::string_view message);
inline net::HttpResponse ErrorAnswer(const base::Status& status) {
  return ErrorAnswer(status.code(), status.message());
}

}  // namespace stoker::serve
