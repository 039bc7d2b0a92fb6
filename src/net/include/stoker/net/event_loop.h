#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <stoker/base/status.h>

namespace stoker::net {

/// One thread that waits on epoll and runs callbacks. Everything registered with a loop is touched
/// by its thread only; Post is the one door for other threads.
class EventLoop {
 public:
  using Task = std::function<void()>;
  /// Called with the ready epoll events.
  using Handler = std::function<void(uint32_t events)>;
  using TimerId = uint64_t;

  static base::Result<std::unique_ptr<EventLoop>> Make(int index);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Runs until Stop. Call it on the loop's own thread.
  void Run();
  /// Makes Run return after the current round; what is posted later stays unrun. Thread-safe.
  void Stop();
  /// Runs `task` on the loop's thread soon, in order of posting; never inside this call. Wakes the
  /// loop only when it sleeps. Not bounded: each caller bounds what it posts. Thread-safe.
  void Post(Task task);
  bool InLoopThread() const;
  int index() const;

  // Loop thread only, from here on (any one thread while Run is not running).

  /// Watches `fd`, level-triggered unless `events` has EPOLLET. A handler may add and remove any
  /// descriptor, its own too; a removed one's handler is not called again and dies at the round's end.
  base::Status Add(int fd, uint32_t events, Handler handler);
  base::Status Modify(int fd, uint32_t events);
  void Remove(int fd);
  /// Runs `task` once after `delay_ns` (to about a millisecond).
  TimerId After(int64_t delay_ns, Task task);
  void CancelTimer(TimerId id);
  /// Runs `task` at the end of the current round of events (to write what a round gathered at once).
  void AtRoundEnd(Task task);
  /// Monotonic time at the start of this round (before the first round: at the making of the loop).
  int64_t now_ns() const;

 private:
  struct State;
  explicit EventLoop(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The loops of a process, a thread each, shared by all its servers; must outlive them. Thread-safe.
class EventLoops {
 public:
  static base::Result<std::unique_ptr<EventLoops>> Start(size_t count);
  ~EventLoops();  // stops and joins
  size_t size() const { return loops_.size(); }
  EventLoop& at(size_t index) { return *loops_[index]; }
  /// Runs `task` once for every loop on that loop's thread and waits for all of them; on the
  /// calling thread once the loops have stopped. Not from a loop's thread.
  void RunOnAll(const std::function<void(EventLoop& loop)>& task);
  /// Stops all loops and joins their threads. Idempotent. Not from a loop's thread.
  void Stop();

 private:
  struct Threads;
  EventLoops();
  std::vector<std::unique_ptr<EventLoop>> loops_;
  std::unique_ptr<Threads> threads_;
};

}  // namespace stoker::net
