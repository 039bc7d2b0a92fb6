#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <stoker/base/clock.h>

namespace stoker::host {

class ServedModel;

/// Takes apart versions that nobody holds any more, on a thread of its own: the last holder may be an
/// I/O thread or one of the version's own instance threads, neither of which may wait for the others.
/// A version whose engine hangs is given up after `kPatienceNs` and never freed. Thread-safe.
class Reaper {
 public:
  static constexpr int64_t kPatienceNs = 5 * base::kNsPerSecond;

  explicit Reaper(base::Clock* clock);
  ~Reaper();
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  /// Shares `model`; the last owner hands it to the reaper, which calls `gone` once it is freed.
  std::shared_ptr<const ServedModel> Watch(std::unique_ptr<ServedModel> model, std::function<void()> gone);

  /// Waits until all watched ones are freed, until `deadline_ns` at most; then ends the thread. False
  /// when some are left: what they use must stay alive for good.
  bool Close(int64_t deadline_ns);
  /// Every version that is not freed yet, replaced and unloaded ones included.
  std::vector<std::shared_ptr<const ServedModel>> Live() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the models out there
};

}  // namespace stoker::host
