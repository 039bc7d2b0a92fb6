#pragma once

#include <cstdint>
#include <string>

#include <stoker/base/status.h>
#include <stoker/host/request.h>

#include "io_plan.h"
#include "output_mask.h"

namespace stoker::host {

/// What a request comes to once it was found right.
struct CheckedRequest {
  int64_t rows = 1;  // of the batch dimension; 1 for models without one
  OutputMask wanted;
};

/// Checks names, counts, types, shapes, batch size and byte sizes of a request against its model, and
/// arranges `request->inputs` in the order of the plan (absent optional ones: kInvalid type). Texts
/// keep the fragments that Triton's clients look for. No request can make it fail in another way.
base::Status CheckRequest(const IoPlan& plan, InferRequest* request, CheckedRequest* checked);

/// Appends what must be equal for two checked requests to share a batch: which inputs are there, their
/// shapes (of all but ragged ones), and with optional inputs the outputs asked for.
void AppendShapeSignature(const IoPlan& plan, const InferRequest& request, const OutputMask& wanted,
                          std::string* out);

}  // namespace stoker::host
