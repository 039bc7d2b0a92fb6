#pragma once

#include <string>
#include <string_view>

#include <stoker/base/status.h>

namespace stoker::serve {

/// The HTTP status of one of our codes, as Triton maps them.
int HttpStatusOf(base::StatusCode code);

/// The message of an inference error as clients see it: "[request id: X] …", <id_unknown> without an id.
std::string WithRequestId(std::string_view id, std::string_view message);

}  // namespace stoker::serve
