#include "kserve/authorisation.h"

namespace stoker::serve {

base::Status Authorise(ApiCategory /*category*/) { return base::OkStatus(); }

}  // namespace stoker::serve
