#pragma once

namespace stoker::base::internal {
[[noreturn]] void CheckFailed(const char* expression, const char* file, int line);
}  // namespace stoker::base::internal

/// Stops the program with file and line when `expression` is false. For our own bugs only: nothing
/// that a request, a file or a peer can bring about may reach a CHECK.
#define CHECK(expression)                             \
  (__builtin_expect(static_cast<bool>(expression), 1) \
       ? static_cast<void>(0)                         \
       : ::stoker::base::internal::CheckFailed(#expression, __FILE__, __LINE__))
