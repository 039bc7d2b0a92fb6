#include <stoker/base/check.h>

#include <cstdio>
#include <cstdlib>

namespace stoker::base::internal {

void CheckFailed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s (a bug in stoker: please report it)\n", file, line,
               expression);
  std::abort();
}

}  // namespace stoker::base::internal
