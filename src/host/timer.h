#pragma once

#include <cstdint>
#include <memory>

#include <stoker/base/clock.h>

namespace stoker::host {

/// One thread that calls clients at the times they ask for: what closes batches and lets requests
/// expire when no instance thread is free to look. Thread-safe.
class Timer {
 public:
  class Client {
   public:
    virtual ~Client() = default;
    virtual void OnTimer() = 0;
  };

  explicit Timer(base::Clock* clock);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Calls client->OnTimer once, at `at_ns` or soon after, instead of at the time asked for before.
  /// Costs no wake-up of another thread.
  void Arm(Client* client, int64_t at_ns);
  /// Forgets the client; waits for a running call. Not from OnTimer.
  void Remove(Client* client);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stoker::host
