#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <stoker/base/bytes.h>
#include <stoker/base/status.h>
#include <stoker/host/model.h>
#include <stoker/host/request.h>
#include <stoker/serve/door.h>

namespace stoker::serve {

/// How the answer to one HTTP inference is to be written.
struct HttpAnswerForm {
  struct Output {
    int index = -1;              // into Model::outputs()
    std::optional<bool> binary;  // as asked; nothing: JSON
    uint64_t classes = 0;        // > 0: classification
  };
  std::vector<Output> outputs;  // as listed; empty: all outputs
  bool binary_default = false;  // acts only when no output is listed
};

struct HttpInferCall {
  std::unique_ptr<host::InferRequest> request;
  HttpAnswerForm form;
};

/// Reads an inference request: `json_bytes` of JSON, then the binary blocks of the inputs that claim
/// them. Numbers stream from the text into tensor memory; binary blocks become views of `body`.
/// What Triton answers with 500 (broken JSON, wrong JSON types) is kInternal here, for its clients' sake.
base::Result<HttpInferCall> ParseInfer(const host::ModelRef& model, const base::Bytes& body,
                                       size_t json_bytes, const DoorOptions& options);

/// The raw form: the whole body is the model's only input, batch 1, all outputs binary.
base::Result<HttpInferCall> ParseRawInfer(const host::ModelRef& model, const base::Bytes& body);

}  // namespace stoker::serve
