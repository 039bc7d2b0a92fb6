#include <stoker/host/model.h>

namespace stoker::host {
namespace {

int Find(std::span<const TensorInfo> infos, std::string_view name) {
  for (size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

int Model::FindInput(std::string_view name) const { return Find(inputs(), name); }
int Model::FindOutput(std::string_view name) const { return Find(outputs(), name); }

}  // namespace stoker::host
