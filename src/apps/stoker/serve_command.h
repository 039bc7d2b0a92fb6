#pragma once

#include <string>
#include <vector>

namespace stoker::apps {

/// `stoker serve …`: serves until a signal. Returns the exit code. Call it before any thread exists:
/// it blocks signals so that all threads inherit that.
int ServeCommand(const std::vector<std::string>& arguments);

}  // namespace stoker::apps
