#pragma once

#include <string>
#include <string_view>

#include <stoker/base/status.h>
#include <stoker/serve/door.h>

#include "grpc/methods.h"

namespace stoker::serve {

/// The answer of a method that only looks (health, metadata, configuration, statistics, repository
/// index): the serialised response to the serialised `request`. Does not block.
base::Result<std::string> AnswerInformation(const DoorContext& context, const DoorOptions& options,
                                            GrpcMethod method, std::string_view request);

}  // namespace stoker::serve
