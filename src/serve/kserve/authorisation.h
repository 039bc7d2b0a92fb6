#pragma once

#include <stoker/base/status.h>
#include <stoker/serve/door.h>

namespace stoker::serve {

/// The one point that every call of every door passes before anything is done for it. Today each
/// category is open; restrictions (keys, loopback-only control) have their place here and nowhere else.
base::Status Authorise(ApiCategory category);

}  // namespace stoker::serve
