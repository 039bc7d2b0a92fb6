#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stoker::base {
class Clock;
class Executor;
class MemoryBudget;
}  // namespace stoker::base
namespace stoker::observe {
class Log;
class Registry;
}  // namespace stoker::observe
namespace stoker::host {
class Host;
}  // namespace stoker::host

namespace stoker::serve {

/// What every door (HTTP, gRPC) works with. All outlive the doors.
struct DoorContext {
  host::Host* host = nullptr;
  base::Executor* executor = nullptr;  // for what must not run on an I/O thread: large or compressed bodies
  base::Clock* clock = nullptr;
  observe::Log* log = nullptr;
  observe::Registry* metrics = nullptr;
  /// Of decompressed bodies; the HTTP door makes its own when it is given none. Shared with the bodies.
  std::shared_ptr<base::MemoryBudget> unpacked = nullptr;
};

/// Caps and identity, the same for both doors.
struct DoorOptions {
  std::string server_id = "triton";   // --id
  std::string server_version;         // the program's own
  size_t input_bytes_max = 64 << 20;  // --http-max-input-size; also after decompression
  int json_depth_max = 100;
  size_t tensors_max = 1024;  // inputs or outputs of one request
  size_t parameters_max = 1024;
  size_t classes_elements_max = 1'000'000;   // of a tensor to classify
  size_t inline_body_bytes_max = 256 << 10;  // larger bodies are parsed on the executor
  size_t unpacked_bytes_max = 1ull << 30;    // decompressed bodies of all unanswered requests together
  bool access_log = false;
};

/// The protocol extensions that this server speaks, as /v2 lists them.
const std::vector<std::string>& Extensions();

/// Groups of calls that access can be restricted for.
enum class ApiCategory : uint8_t {
  kHealth,
  kMetadata,
  kInference,
  kSharedMemory,
  kModelConfig,
  kModelRepository,
  kStatistics,
  kTrace,
  kLogging
};

}  // namespace stoker::serve
