#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <stoker/base/mutex.h>
#include <stoker/net/event_loop.h>
#include <stoker/net/listener.h>

#include "grpc_session.h"

namespace stoker::net::internal {

class GrpcConnection;

/// A server's connections on one loop, and the way of answers to them from other threads. Answers
/// that arrive together wake the loop once; what a round of the loop produced is written at its end.
/// Thread-safe where it says so; otherwise the loop's thread only.
class GrpcLane final : public GrpcPort, public std::enable_shared_from_this<GrpcLane> {
 public:
  GrpcLane(EventLoop* loop, std::shared_ptr<GrpcShared> shared, Listener* listener);
  ~GrpcLane() override;

  // Any thread.
  bool InOwnThread() const override {
    return thread_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  void Post(GrpcAnswer answer) override;

  /// Takes over a connection.
  void Adopt(int fd, std::string peer);
  void Drain();
  /// Cuts all connections; answers that come later are dropped. The loop may go afterwards.
  void Close();

  // For its connections, and counters() for all.
  EventLoop& loop() { return *loop_; }
  GrpcShared& shared() { return *shared_; }
  GrpcCounters& counters() { return counters_; }
  /// Memory to receive into, used by one connection at a time.
  std::span<std::byte> read_buffer() { return {read_buffer_.get(), kReadBytes}; }
  /// `connection` is to be flushed when the round ends.
  void Schedule(GrpcConnection* connection);
  /// `connection` has closed; it is destroyed when the round ends.
  void Retire(GrpcConnection* connection);

 private:
  static constexpr size_t kReadBytes = 256 << 10;

  void ApplyAnswers();
  void ScheduleRoundEnd();
  void EndRound();

  EventLoop* const loop_;
  const std::shared_ptr<GrpcShared> shared_;  // calls keep the lane, so it may outlive the server
  Listener* const listener_;
  GrpcCounters counters_;
  std::atomic<std::thread::id> thread_;

  base::Mutex mutex_;
  std::vector<GrpcAnswer> answers_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;

  const std::unique_ptr<std::byte[]> read_buffer_;
  std::unordered_map<GrpcConnection*, std::unique_ptr<GrpcConnection>> connections_;
  std::vector<std::unique_ptr<GrpcConnection>> retired_;
  std::vector<GrpcConnection*> scheduled_;
  std::vector<GrpcAnswer> applying_;
  bool round_end_scheduled_ = false;
  bool draining_ = false;
};

}  // namespace stoker::net::internal
