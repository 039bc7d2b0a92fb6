#include "kserve/error_text.h"

#include <stoker/base/str_cat.h>

namespace stoker::serve {

int HttpStatusOf(base::StatusCode code) {
  using base::StatusCode;
  switch (code) {
    case StatusCode::kOk:
      return 200;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kPermissionDenied:
      return 403;
    case StatusCode::kUnauthenticated:
      return 401;
    case StatusCode::kUnavailable:
      return 503;
    case StatusCode::kResourceExhausted:
      return 413;
    case StatusCode::kDeadlineExceeded:
      return 504;
    case StatusCode::kUnimplemented:
      return 501;
    case StatusCode::kInternal:
    case StatusCode::kDataLoss:
      return 500;
    default:
      return 400;
  }
}

std::string WithRequestId(std::string_view id, std::string_view message) {
  return base::StrCat("[request id: ", id.empty() ? "<id_unknown>" : id, "] ", message);
}

}  // namespace stoker::serve
