#pragma once

#include <functional>
#include <string>
#include <thread>

namespace stoker::base {

/// A named thread that is always joined. Movable; not thread-safe itself. The body must not throw.
class Thread {
 public:
  Thread() = default;
  /// Starts at once. `name` shows in debuggers and `top`, cut to 15 bytes.
  Thread(const std::string& name, std::function<void()> body);
  Thread(Thread&&) = default;
  /// Joins what it held first.
  Thread& operator=(Thread&& other) noexcept;
  ~Thread() { Join(); }

  /// Waits for the body to return. Idempotent; not from the thread itself.
  void Join();
  bool joinable() const { return thread_.joinable(); }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  std::thread thread_;
};

/// Names the calling thread (cut to 15 bytes).
void SetThreadName(const std::string& name);

}  // namespace stoker::base
