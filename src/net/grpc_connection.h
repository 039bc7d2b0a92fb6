#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <stoker/net/event_loop.h>

#include "grpc_session.h"
#include "h2_output.h"

namespace stoker::net::internal {

class GrpcLane;

/// One socket and its session. The loop's thread only.
class GrpcConnection final : public GrpcSessionHost {
 public:
  GrpcConnection(GrpcLane* lane, int fd, std::string peer);
  ~GrpcConnection() override;

  void Start();
  /// Writes what the session has, and closes the connection when it is done.
  void Flush();
  /// Lets its calls end and takes no further ones.
  void Drain();
  /// Closes the socket and cancels its calls.
  void Close();
  void OnOutput() override;
  int64_t NowNs() const override;

 private:
  enum class State : uint8_t { kOpen, kLingering, kClosed };

  void OnEvents(uint32_t events);
  void Read();
  void Discard();
  bool WriteOutput();
  void Linger();
  void Watch(uint32_t events);
  void Rearm();
  void OnTimer();
  void CheckTimes(int64_t now_ns);
  int64_t NextTimeNs() const;

  GrpcLane* const lane_;
  const int fd_;
  const std::shared_ptr<const GrpcPeer> peer_;
  std::unique_ptr<GrpcSession> session_;
  H2Output output_;
  State state_ = State::kOpen;
  bool scheduled_ = false;  // for the end of the round
  bool failed_ = false;     // the session cannot go on; what is produced is still sent
  uint32_t watched_ = 0;
  EventLoop::TimerId timer_ = 0;
  int64_t timer_ns_ = 0;
  int64_t accepted_ns_ = 0;
  int64_t received_ns_ = 0;  // when bytes last came
  int64_t pinged_ns_ = 0;
  int64_t blocked_ns_ = 0;     // since when the socket takes nothing; 0: it does
  int64_t idle_since_ns_ = 0;  // 0: calls are open
  int64_t draining_ns_ = 0;    // when the end was announced
  int64_t lingering_ns_ = 0;
};

}  // namespace stoker::net::internal
