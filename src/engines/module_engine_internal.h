#pragma once

#include <memory>
#include <string>
#include <vector>

#include <stoker/engines/engine.h>

namespace stoker::engines::internal {

/// What is known of a module's engine before it is opened.
struct ModuleFacts {
  std::string_view name;
  std::string_view file;  // "libstoker_openvino.so"
  std::string advice;     // how to get it, for the message when it cannot be opened
  bool (*serves)(std::string_view backend, std::string_view platform);
  std::span<const std::string_view> (*filenames)();
  std::string_view (*backend_for)(std::string_view filename);
  std::span<const std::string_view> (*parameters)();
};

/// An engine that opens its shared library at the first Describe or Load. A library that cannot be
/// opened is tried again at the next call, so that one installed later is found.
std::unique_ptr<Engine> MakeModuleEngine(const ModuleFacts& facts, std::vector<std::string> folders);

/// Where modules lie: beside the executable, and lib/stoker as installed.
std::vector<std::string> StandardModuleFolders();

}  // namespace stoker::engines::internal
