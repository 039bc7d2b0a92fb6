#pragma once

#include <stoker/base/status.h>
#include <stoker/engines/engine.h>

namespace stoker::engines::internal {

/// The description of a model without a file: what its configuration says, or kFailedPrecondition
/// when that names no inputs or outputs.
base::Result<ModelDescription> DescribeFromSpec(const ModelSpec& spec);

}  // namespace stoker::engines::internal
