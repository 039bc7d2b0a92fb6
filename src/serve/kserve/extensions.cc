#include <stoker/serve/door.h>

namespace stoker::serve {

const std::vector<std::string>& Extensions() {
  static const std::vector<std::string> names = {
      "classification",  "model_repository",    "model_repository(unload_dependents)",
      "schedule_policy", "model_configuration", "binary_tensor_data",
      "parameters",      "statistics",          "logging"};
  return names;
}

}  // namespace stoker::serve
