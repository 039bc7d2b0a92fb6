#include "grpc_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include <stoker/base/clock.h>

#include "grpc_lane.h"

namespace stoker::net::internal {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int kReadsPerRound = 4;
constexpr size_t kProduceBytes = 256 << 10;
constexpr size_t kWrittenPerRoundMax = 4 << 20;  // so that one fast reader does not hold up the others
constexpr size_t kIovecs = 128;
constexpr int64_t kDrainAnswerNs = base::kNsPerSecond;  // for the peer's answer to the announcement
constexpr int64_t kTimerNsMax = 3600 * base::kNsPerSecond;
constexpr int64_t kLingerNs = base::kNsPerSecond;

// The end of a period; saturates, since a timeout may be set to "never".
int64_t After(int64_t start_ns, int64_t period_ns) {
  return period_ns > kNever - start_ns ? kNever : start_ns + period_ns;
}

}  // namespace

GrpcConnection::GrpcConnection(GrpcLane* lane, int fd, std::string peer)
    : lane_(lane),
      fd_(fd),
      peer_(std::make_shared<const GrpcPeer>(GrpcPeer{std::move(peer), lane->shared_from_this(),
                                                      lane->shared().options.write_backlog_bytes_max})) {}

GrpcConnection::~GrpcConnection() = default;

void GrpcConnection::Start() {
  accepted_ns_ = received_ns_ = idle_since_ns_ = NowNs();
  auto session = GrpcSession::Make(&lane_->shared(), &lane_->counters(), peer_, this);
  if (session.ok()) session_ = *std::move(session);
  watched_ = EPOLLIN;
  if (session_ == nullptr ||
      !lane_->loop().Add(fd_, watched_, [this](uint32_t events) { OnEvents(events); }).ok()) {
    Close();
    return;
  }
  OnOutput();  // our settings
}

void GrpcConnection::OnOutput() {
  if (state_ == State::kClosed || std::exchange(scheduled_, true)) return;
  lane_->Schedule(this);
}

int64_t GrpcConnection::NowNs() const { return lane_->loop().now_ns(); }

void GrpcConnection::OnEvents(uint32_t events) {
  if (state_ == State::kLingering) {
    Discard();
    return;
  }
  if (state_ != State::kOpen) return;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) Read();
  if ((events & EPOLLOUT) != 0) OnOutput();
}

void GrpcConnection::Read() {
  const std::span<std::byte> buffer = lane_->read_buffer();
  for (int i = 0; i < kReadsPerRound && !failed_; ++i) {
    const ssize_t size = recv(fd_, buffer.data(), buffer.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (size <= 0) {
      Close();
      return;
    }
    received_ns_ = NowNs();
    failed_ = !session_->Receive(buffer.first(static_cast<size_t>(size))).ok();
    if (static_cast<size_t>(size) < buffer.size()) break;
  }
  OnOutput();
}

// Reads what nobody wants, so that the kernel does not answer it with a reset that would overtake
// what was written last.
void GrpcConnection::Discard() {
  const std::span<std::byte> buffer = lane_->read_buffer();
  const ssize_t size = recv(fd_, buffer.data(), buffer.size(), 0);
  if (size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR))) return;
  Close();
}

// False when the socket takes no more now, or the connection is closed.
bool GrpcConnection::WriteOutput() {
  std::array<iovec, kIovecs> pieces;
  while (!output_.empty()) {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = output_.Gather(pieces);
    const ssize_t written = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (written >= 0) {
      output_.Consume(static_cast<size_t>(written));
      blocked_ns_ = 0;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (blocked_ns_ == 0) blocked_ns_ = NowNs();
      return false;
    } else if (errno != EINTR) {
      Close();
      return false;
    }
  }
  return true;
}

void GrpcConnection::Flush() {
  scheduled_ = false;
  if (state_ != State::kOpen) return;
  bool more = false;
  for (size_t written = 0;;) {
    if (!WriteOutput()) {
      more = true;
      break;
    }
    if (written >= kWrittenPerRoundMax) {
      more = true;
      break;
    }
    failed_ |= !session_->Produce(&output_, kProduceBytes).ok();
    if (output_.empty()) break;
    written += output_.size();
  }
  if (state_ != State::kOpen) return;
  if (!more && (failed_ || session_->finished())) {
    Linger();
    return;
  }
  // After a fault nothing is read any more: watching for it would only spin while the rest goes out.
  Watch((failed_ ? 0u : EPOLLIN) | (more ? EPOLLOUT : 0u));
  if (state_ != State::kOpen) return;
  if (session_->open_calls() > 0) {
    idle_since_ns_ = 0;
  } else if (idle_since_ns_ == 0) {
    idle_since_ns_ = NowNs();
  }
  Rearm();
}

void GrpcConnection::Watch(uint32_t events) {
  if (std::exchange(watched_, events) == events) return;
  if (!lane_->loop().Modify(fd_, events).ok()) Close();
}

// Everything is said: half-closes and waits a moment for the peer to do the same.
void GrpcConnection::Linger() {
  session_.reset();
  state_ = State::kLingering;
  lingering_ns_ = NowNs();
  shutdown(fd_, SHUT_WR);
  Watch(EPOLLIN);
  Rearm();
}

void GrpcConnection::Drain() {
  if (state_ != State::kOpen || draining_ns_ != 0) return;
  draining_ns_ = NowNs();
  session_->BeginDrain();
}

void GrpcConnection::Close() {
  if (std::exchange(state_, State::kClosed) == State::kClosed) return;
  lane_->loop().Remove(fd_);
  close(fd_);
  if (timer_ != 0) lane_->loop().CancelTimer(std::exchange(timer_, 0));
  session_.reset();
  lane_->Retire(this);
}

int64_t GrpcConnection::NextTimeNs() const {
  const GrpcServerOptions& options = lane_->shared().options;
  if (state_ == State::kLingering) return After(lingering_ns_, kLingerNs);
  int64_t next_ns = session_->next_time_ns();
  const auto consider = [&next_ns](int64_t start_ns, int64_t period_ns) {
    next_ns = std::min(next_ns, After(start_ns, period_ns));
  };
  if (!session_->handshake_done()) consider(accepted_ns_, options.handshake_timeout_ns);
  if (session_->ping_unanswered()) {
    consider(pinged_ns_, options.keepalive_timeout_ns);
  } else {
    consider(received_ns_, options.keepalive_time_ns);
  }
  if (options.idle_timeout_ns > 0 && idle_since_ns_ != 0) consider(idle_since_ns_, options.idle_timeout_ns);
  if (blocked_ns_ != 0) consider(blocked_ns_, options.write_timeout_ns);
  if (draining_ns_ != 0) consider(draining_ns_, kDrainAnswerNs);
  return next_ns;
}

// The timer may come too early (things moved on), never too late.
void GrpcConnection::Rearm() {
  if (state_ == State::kClosed) return;
  const int64_t next_ns = NextTimeNs();
  if (timer_ != 0 && timer_ns_ <= next_ns) return;
  if (timer_ != 0) lane_->loop().CancelTimer(timer_);
  timer_ns_ = next_ns;
  const int64_t wait_ns = next_ns - NowNs();
  timer_ = lane_->loop().After(std::clamp<int64_t>(wait_ns, 0, kTimerNsMax), [this] { OnTimer(); });
}

void GrpcConnection::OnTimer() {
  timer_ = 0;
  CheckTimes(NowNs());
  if (state_ == State::kLingering) {
    Rearm();
  } else {
    OnOutput();  // rearms, too
  }
}

void GrpcConnection::CheckTimes(int64_t now_ns) {
  const GrpcServerOptions& options = lane_->shared().options;
  const auto over = [now_ns](int64_t start_ns, int64_t period_ns) {
    return After(start_ns, period_ns) <= now_ns;
  };
  if (state_ == State::kLingering) {
    if (over(lingering_ns_, kLingerNs)) Close();
    return;
  }
  if ((!session_->handshake_done() && over(accepted_ns_, options.handshake_timeout_ns)) ||
      (blocked_ns_ != 0 && over(blocked_ns_, options.write_timeout_ns)) ||
      (session_->ping_unanswered() && over(pinged_ns_, options.keepalive_timeout_ns))) {
    Close();
    return;
  }
  session_->OnTime();
  if (draining_ns_ != 0 && over(draining_ns_, kDrainAnswerNs)) {
    session_->FinishDrain();
    draining_ns_ = kNever;  // announced once; After saturates
  }
  if (options.idle_timeout_ns > 0 && idle_since_ns_ != 0 && over(idle_since_ns_, options.idle_timeout_ns)) {
    idle_since_ns_ = now_ns;
    Drain();
  }
  if (!session_->ping_unanswered() && over(received_ns_, options.keepalive_time_ns)) {
    pinged_ns_ = now_ns;
    session_->SendPing();
  }
}

}  // namespace stoker::net::internal
