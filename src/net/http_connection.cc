#include "http_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <stoker/base/clock.h>

namespace stoker::net::internal {
namespace {

constexpr int64_t kLingerNs = 5 * base::kNsPerSecond;
constexpr int64_t kDrainIdleNs = base::kNsPerSecond / 2;
constexpr size_t kReadPauseBytes = 1 << 20;  // no further request is taken while more waits to be written

}  // namespace

HttpConnection::HttpConnection(HttpShard* shard, int fd, std::string peer)
    : shard_(shard),
      loop_(shard->loop),
      fd_(fd),
      peer_(std::make_shared<const std::string>(std::move(peer))) {}

HttpConnection::~HttpConnection() {
  if (stage_ != Stage::kClosed) close(fd_);
}

base::Status HttpConnection::Start() {
  idle_since_ns_ = loop_->now_ns();
  events_ = EPOLLIN | EPOLLRDHUP;
  return loop_->Add(fd_, events_, [self = shared_from_this()](uint32_t events) { self->OnEvents(events); });
}

void HttpConnection::OnEvents(uint32_t events) {
  if (stage_ == Stage::kClosed) return;
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
    Close();
    return;
  }
  if ((events & EPOLLIN) != 0) Receive();
  if ((events & EPOLLRDHUP) != 0) OnPeerEnd();
  Pump();
}

// The peer sends no more. That is how a client that gave up looks too, and it is by far the more
// likely case, so whoever works on an answer is told; the answer is still sent if it comes.
void HttpConnection::OnPeerEnd() {
  if (stage_ == Stage::kClosed || std::exchange(peer_ends_, true)) return;
  const auto exchanges = exchanges_;  // a callback may answer, which changes the original
  for (const auto& exchange : exchanges) exchange->PeerGone();
}

bool HttpConnection::MayParse() const {
  const bool receiving = stage_ == Stage::kHead || stage_ == Stage::kBody || stage_ == Stage::kChunks;
  return receiving && !last_request_ && exchanges_.size() < shard_->options->pipelined_max &&
         output_.size() < kReadPauseBytes;
}

bool HttpConnection::Idle() const {
  return stage_ == Stage::kHead && exchanges_.empty() && output_.empty() && request_start_ns_ == 0 &&
         begin_ == end_;
}

void HttpConnection::Pump() {
  if (pumping_ || stage_ == Stage::kClosed) return;
  pumping_ = true;
  do {
    Parse();
  } while (Flush() && MayParse() && !needs_input_ && begin_ != end_);
  pumping_ = false;
  if (stage_ != Stage::kClosed) Settle();
}

void HttpConnection::Deliver() {
  if (stage_ == Stage::kClosed) return;
  Advance();
  if (!pumping_ && stage_ != Stage::kClosed) shard_->PumpAtRoundEnd(shared_from_this());
}

// Moves answers from the exchanges to the output, as far as they have come in request order.
void HttpConnection::Advance() {
  while (!exchanges_.empty()) {
    const std::shared_ptr<HttpExchange> front = exchanges_.front();
    const HttpOutbox outbox = front->Take();
    if (outbox.broken) {
      Break();
      return;
    }
    if (!outbox.has_head && !outbox.end && outbox.parts.empty()) break;
    Answer(*front, outbox);
    if (!outbox.end) break;
    front->Detach();
    exchanges_.pop_front();
    spare_ = front;
    if (front->frame.close) {
      EndAnswers();
      break;
    }
  }
  SendContinueIfDue();
  backlog_.store(output_.size(), std::memory_order_relaxed);
}

void HttpConnection::Answer(HttpExchange& front, const HttpOutbox& outbox) {
  ResponseFrame& frame = front.frame;
  if (outbox.has_head) {
    frame.stream = outbox.stream;
    const bool drained = shard_->draining->load(std::memory_order_relaxed) && exchanges_.size() == 1;
    if (drained || (frame.stream && frame.http10)) frame.close = true;
    if (frame.close) last_request_ = true;
    AppendResponse(outbox.head, frame, shard_->date.Line(loop_->now_ns()), &output_);
    if (frame.stream && HasNoBody(outbox.head.status)) frame.head_only = true;
  }
  for (const base::Bytes& part : outbox.parts) AppendStreamPart(part, frame, &output_);
  if (outbox.end && frame.stream) AppendStreamEnd(frame, &output_);
}

// The answer just given was announced as the last one.
void HttpConnection::EndAnswers() {
  if (begin_ != end_ || stage_ == Stage::kBody || stage_ == Stage::kChunks) input_dropped_ = true;
  stage_ = Stage::kRefusing;
  const auto unanswered = std::exchange(exchanges_, {});
  for (const auto& exchange : unanswered) {
    exchange->PeerGone();
    exchange->Detach();
  }
}

bool HttpConnection::Flush() {
  if (stage_ == Stage::kClosed) return false;
  if (output_.empty()) return true;
  size_t written = 0;
  const HttpOutput::Outcome outcome = output_.Flush(fd_, &written);
  shard_->counts.bytes_out.Add(written);
  backlog_.store(output_.size(), std::memory_order_relaxed);
  if (outcome == HttpOutput::Outcome::kFailed) {
    Close();
    return false;
  }
  const bool blocked = outcome == HttpOutput::Outcome::kBlocked;
  if (written > 0 || (blocked && !write_blocked_)) write_progress_ns_ = loop_->now_ns();
  write_blocked_ = blocked;
  return true;
}

// Leaves the connection as it waits for its next event.
void HttpConnection::Settle() {
  const bool receiving = stage_ == Stage::kHead || stage_ == Stage::kBody || stage_ == Stage::kChunks;
  if (peer_closed_ && receiving && (needs_input_ || begin_ == end_)) stage_ = Stage::kRefusing;
  if (stage_ == Stage::kRefusing && exchanges_.empty() && output_.empty()) {
    if (!input_dropped_ || peer_closed_) {
      Close();
      return;
    }
    // Closing now would reset the connection for the bytes still arriving, and the reset could
    // overtake the answer on its way to the client.
    shutdown(fd_, SHUT_WR);
    stage_ = Stage::kLinger;
    idle_since_ns_ = loop_->now_ns();
  }
  StashInput();
  if (stage_ == Stage::kClosed) return;
  if (Idle()) idle_since_ns_ = loop_->now_ns();
  UpdateEvents();
}

void HttpConnection::UpdateEvents() {
  uint32_t wanted = 0;
  if (!peer_ends_) wanted |= EPOLLRDHUP;
  if (!peer_closed_ && (MayParse() || stage_ == Stage::kLinger)) wanted |= EPOLLIN;
  if (write_blocked_) wanted |= EPOLLOUT;
  if (wanted == events_) return;
  if ((wanted & ~events_ & EPOLLIN) != 0) {  // the pause is not held against the peer
    read_progress_ns_ = loop_->now_ns();
    if (request_start_ns_ != 0) request_start_ns_ = loop_->now_ns();
  }
  events_ = wanted;
  if (!loop_->Modify(fd_, events_).ok()) Close();
}

void HttpConnection::CheckTimeouts(int64_t now_ns) {
  const HttpServerOptions& options = *shard_->options;
  if (stage_ == Stage::kClosed) return;
  if (write_blocked_ && now_ns - write_progress_ns_ > options.write_timeout_ns) {
    shard_->counts.timeouts.Add(1);
    Break();
    return;
  }
  if (stage_ == Stage::kLinger) {
    if (now_ns - idle_since_ns_ > kLingerNs) Close();
    return;
  }
  if (Idle()) {
    const bool draining = shard_->draining->load(std::memory_order_relaxed);
    const int64_t limit =
        draining ? std::min(kDrainIdleNs, options.idle_timeout_ns) : options.idle_timeout_ns;
    if (now_ns - idle_since_ns_ > limit) Close();
    return;
  }
  if (!MayParse()) return;
  const bool header_late = stage_ == Stage::kHead && request_start_ns_ != 0 &&
                           now_ns - request_start_ns_ > options.header_timeout_ns;
  const bool body_late = stage_ != Stage::kHead && now_ns - read_progress_ns_ > options.body_timeout_ns;
  if (!header_late && !body_late) return;
  shard_->counts.timeouts.Add(1);
  Refuse(
      {408, header_late ? "the request header did not arrive in time" : "the request body stopped arriving"});
  Pump();
}

void HttpConnection::Drain() {
  if (!Idle()) return;
  char byte = 0;  // a request that is here already is still answered
  if (recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) Close();
}

void HttpConnection::Break() {
  const linger reset{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  Close();
}

void HttpConnection::Close() {
  if (std::exchange(stage_, Stage::kClosed) == Stage::kClosed) return;
  const std::shared_ptr<HttpConnection> self = shared_from_this();
  loop_->Remove(fd_);
  close(fd_);
  const auto unanswered = std::exchange(exchanges_, {});
  for (const auto& exchange : unanswered) {
    exchange->PeerGone();
    exchange->Detach();
  }
  memory_.reset();
  head_memory_.reset();
  body_.reset();
  begin_ = end_ = 0;
  shard_->listener->Release(*loop_);
  shard_->Remove(this);
}

}  // namespace stoker::net::internal
