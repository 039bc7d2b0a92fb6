#pragma once

#include <span>
#include <string_view>

namespace stoker::engines::internal {

/// What the OpenVINO engine answers to; known without opening OpenVINO.
inline constexpr std::string_view kOpenvinoName = "openvino";
inline constexpr std::string_view kOpenvinoModuleFile = "libstoker_openvino.so";

bool OpenvinoServes(std::string_view backend, std::string_view platform);
std::span<const std::string_view> OpenvinoFilenames();
std::string_view OpenvinoBackendFor(std::string_view filename);
std::span<const std::string_view> OpenvinoParameters();

}  // namespace stoker::engines::internal
