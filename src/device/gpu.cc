#include <stoker/device/gpu.h>

#include <dlfcn.h>

#include <cctype>
#include <filesystem>
#include <memory>
#include <vector>

#include <stoker/base/str_cat.h>

namespace stoker::device {
namespace {

// A node nvidia0, nvidia1, … or the one of Windows' Linux.
bool HasNode(const std::string& dev) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(dev, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name == "dxg") return true;
    if (name.size() > 6 && name.starts_with("nvidia") &&
        std::isdigit(static_cast<unsigned char>(name[6])) != 0)
      return true;
  }
  return false;
}

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};

std::vector<std::string> AskDriver(const std::string& driver) {
  const std::unique_ptr<void, CloseLibrary> library(dlopen(driver.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library == nullptr) return {};
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library.get(), "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(library.get(), "cuDeviceGetCount"));
  const auto name_of = reinterpret_cast<int (*)(char*, int, int)>(dlsym(library.get(), "cuDeviceGetName"));
  if (init == nullptr || count == nullptr || name_of == nullptr || init(0) != 0) return {};
  int devices = 0;
  if (count(&devices) != 0) return {};
  std::vector<std::string> names;
  for (int device = 0; device < devices; ++device) {
    char name[256] = {};
    names.emplace_back(name_of(name, sizeof(name) - 1, device) == 0 && name[0] != '\0' ? name : "GPU");
  }
  return names;
}

}  // namespace

std::string SeenGpu(const GpuSources& sources) {
  if (!HasNode(sources.dev)) return "";
  const std::vector<std::string> names = AskDriver(sources.driver);
  std::string out;
  for (size_t i = 0; i < names.size();) {
    size_t same = i;
    while (same < names.size() && names[same] == names[i]) ++same;
    base::StrAppend(&out, out.empty() ? "" : ", ", same - i > 1 ? base::StrCat(same - i, " × ") : "",
                    names[i]);
    i = same;
  }
  return out;
}

}  // namespace stoker::device
