// The receiving half of HttpConnection: from the socket to the handler.

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "http_connection.h"

namespace stoker::net::internal {
namespace {

constexpr size_t kSmallRequestBytesMax = 4 << 10;  // up to here a copy costs less than keeping a whole block
constexpr size_t kChunkedBytesMin = 4 << 10;
constexpr size_t kRoomBytesMin = 4 << 10;
constexpr size_t kDiscardBytesPerEvent = 1 << 20;
constexpr size_t kHeadersReserved = 16;

}  // namespace

size_t HttpConnection::ReceiveInto(std::byte* data, size_t room) {
  const ssize_t got = recv(fd_, data, room, 0);
  if (got > 0) {
    needs_input_ = false;
    read_progress_ns_ = loop_->now_ns();
    shard_->counts.bytes_in.Add(static_cast<size_t>(got));
    return static_cast<size_t>(got);
  }
  if (got == 0) {
    peer_closed_ = true;
    OnPeerEnd();
  } else if (errno != EAGAIN && errno != EINTR) {
    Close();
  }
  return 0;
}

void HttpConnection::Receive() {
  if (stage_ == Stage::kLinger) {
    DiscardInput();
    return;
  }
  if (!MayParse()) return;
  if (stage_ == Stage::kBody) {
    ReceiveBody();
    return;
  }
  if (!EnsureRoom()) {
    RefuseForMemory();
    return;
  }
  end_ += ReceiveInto(memory_->data() + end_, memory_->capacity() - end_);
}

void HttpConnection::ReceiveBody() {
  const size_t got = ReceiveInto(body_->data() + body_got_, body_size_ - body_got_);
  if (got == 0) return;
  if (!body_->Charge(shard_->budget, got)) {
    RefuseForMemory();
    return;
  }
  body_got_ += got;
  continue_due_ = false;
  if (body_got_ == body_size_) DispatchCollected();
}

// Unread bytes never move inside their memory, because requests may point into it.
bool HttpConnection::EnsureRoom() {
  if (memory_ == nullptr) {
    memory_ = shard_->TakeBlock();
    memory_is_block_ = true;
    begin_ = end_ = 0;
    return memory_ != nullptr;
  }
  if (memory_->capacity() - end_ >= kRoomBytesMin) return true;
  const std::string_view rest = unread();
  auto larger = ReceiveMemory::Allocate(2 * rest.size() + kRoomBytesMin);
  if (larger == nullptr || !larger->Charge(shard_->budget, larger->capacity())) return false;
  std::memcpy(larger->data(), rest.data(), rest.size());
  memory_ = std::move(larger);
  memory_is_block_ = false;
  begin_ = 0;
  end_ = rest.size();
  return true;
}

void HttpConnection::StashInput() {
  if (memory_ == nullptr || (begin_ != end_ && !memory_is_block_)) return;
  const std::string_view rest = unread();
  std::shared_ptr<ReceiveMemory> stash;
  if (!rest.empty()) {
    stash = ReceiveMemory::Allocate(2 * rest.size() + kRoomBytesMin);
    if (stash == nullptr || !stash->Charge(shard_->budget, stash->capacity())) {
      RefuseForMemory();
      Pump();
      return;
    }
    std::memcpy(stash->data(), rest.data(), rest.size());
  }
  if (memory_is_block_) shard_->ReturnBlock(std::move(memory_));
  memory_ = std::move(stash);
  memory_is_block_ = false;
  begin_ = 0;
  end_ = rest.size();
}

void HttpConnection::DiscardInput() {
  const ssize_t got = recv(fd_, nullptr, kDiscardBytesPerEvent, MSG_TRUNC);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) Close();
}

void HttpConnection::Parse() {
  while (begin_ != end_ && MayParse()) {
    const Progress progress = stage_ == Stage::kHead ? ParseHeadStep() : ParseChunksStep();
    if (progress == Progress::kNeedsInput) {
      needs_input_ = true;
      return;
    }
  }
}

HttpConnection::Progress HttpConnection::ParseHeadStep() {
  if (request_start_ns_ == 0) request_start_ns_ = loop_->now_ns();
  HttpFault fault;
  const HeadScanner::Outcome outcome = scanner_.Scan(unread(), shard_->limits, &fault);
  if (outcome == HeadScanner::Outcome::kMore) return Progress::kNeedsInput;
  HttpHead head;
  size_t head_size = 0;
  if (outcome == HeadScanner::Outcome::kComplete) {
    head_size = scanner_.head_size() - scanner_.skipped();
    begin_ += scanner_.skipped();
    scanner_.Reset();
    head.headers.reserve(kHeadersReserved);
    fault = ParseHead(unread().substr(0, head_size), shard_->limits, &head);
  }
  if (fault) {
    Refuse(std::move(fault));
    return Progress::kMade;
  }
  const size_t arrived = end_ - begin_ - head_size;
  if (!head.chunked && head.length <= arrived) {
    const size_t body_size = head.length;
    DispatchInline(std::move(head), head_size, body_size);
  } else if (!BeginBody(std::move(head), head_size)) {
    RefuseForMemory();
  }
  return Progress::kMade;
}

// Copies the header to memory of its own and makes ready for a body that is still to come. False
// when there is no memory.
bool HttpConnection::BeginBody(HttpHead head, size_t head_size) {
  head_memory_ = ReceiveMemory::Allocate(head_size);
  if (head_memory_ == nullptr || !head_memory_->Charge(shard_->budget, head_size)) return false;
  const std::string_view source = unread().substr(0, head_size);
  std::memcpy(head_memory_->data(), source.data(), head_size);
  head.Rebase(source.data(), reinterpret_cast<const char*>(head_memory_->data()));
  begin_ += head_size;
  continue_due_ = head.expect_continue && begin_ == end_;
  head_ = std::move(head);
  body_got_ = 0;
  if (head_.chunked) {
    stage_ = Stage::kChunks;
    decoder_ = ChunkDecoder();
  } else {
    stage_ = Stage::kBody;
    body_size_ = head_.length;
    body_ = ReceiveMemory::Allocate(body_size_);
    const size_t arrived = end_ - begin_;
    if (body_ == nullptr || !body_->Charge(shard_->budget, arrived)) return false;
    std::memcpy(body_->data(), unread().data(), arrived);
    body_got_ = arrived;
    begin_ = end_;
  }
  SendContinueIfDue();
  return true;
}

HttpConnection::Progress HttpConnection::ParseChunksStep() {
  std::string_view input = unread();
  const std::string_view data = decoder_.Next(&input, shard_->limits);
  begin_ = end_ - input.size();
  continue_due_ = false;
  if (decoder_.fault()) {
    Refuse(decoder_.fault());
  } else if (!AppendChunk(data)) {
    RefuseForMemory();
  } else if (decoder_.done()) {
    DispatchCollected();
  }
  return Progress::kMade;
}

bool HttpConnection::AppendChunk(std::string_view data) {
  if (data.empty()) return true;
  const size_t wanted = body_got_ + data.size();
  if (body_ == nullptr || wanted > body_->capacity()) {
    const size_t doubled =
        body_ == nullptr ? kChunkedBytesMin : std::min(2 * body_->capacity(), shard_->limits.body_bytes_max);
    auto larger = ReceiveMemory::Allocate(std::max(wanted, doubled));
    if (larger == nullptr || !larger->Charge(shard_->budget, larger->capacity())) return false;
    if (body_got_ > 0) std::memcpy(larger->data(), body_->data(), body_got_);
    body_ = std::move(larger);
  }
  std::memcpy(body_->data() + body_got_, data.data(), data.size());
  body_got_ = wanted;
  return true;
}

// A request that lies in memory_ as a whole.
void HttpConnection::DispatchInline(HttpHead head, size_t head_size, size_t body_size) {
  const std::string_view source = unread().substr(0, head_size + body_size);
  const bool small = source.size() <= kSmallRequestBytesMax;
  std::shared_ptr<ReceiveMemory> owner = small ? shard_->TakeSmall(source.size()) : memory_;
  if (owner == nullptr || shard_->budget->Full()) {
    RefuseForMemory();
    return;
  }
  const auto* start = reinterpret_cast<const std::byte*>(source.data());
  if (small) {
    std::memcpy(owner->data(), source.data(), source.size());
    head.Rebase(source.data(), reinterpret_cast<const char*>(owner->data()));
    start = owner->data();
  }
  begin_ += source.size();
  base::Bytes body;
  if (body_size > 0) body = base::Bytes({start + head_size, body_size}, owner);
  Dispatch(std::move(head), owner, std::move(body));
  if (small) shard_->ReturnSmall(std::move(owner));
}

void HttpConnection::DispatchCollected() {
  stage_ = Stage::kHead;
  base::Bytes body;
  if (body_got_ > 0) body = base::Bytes({body_->data(), body_got_}, body_);
  body_.reset();
  Dispatch(std::move(head_), std::move(head_memory_), std::move(body));
  head_ = HttpHead();
  head_memory_.reset();
}

void HttpConnection::Dispatch(HttpHead head, std::shared_ptr<ReceiveMemory> owner, base::Bytes body) {
  owner->set_peer(peer_);
  HttpRequest request;
  request.method = head.method;
  request.target = head.target;
  request.path = head.path;
  request.query = head.query;
  request.minor_version = head.minor_version;
  request.headers = std::move(head.headers);
  request.has_length = head.has_length || head.chunked;
  request.body = std::move(body);
  request.owner = std::move(owner);
  request.received_ns = std::exchange(request_start_ns_, 0);
  request.peer = *peer_;
  last_request_ = !head.keep_alive;
  shard_->counts.requests.Add(1);
  std::shared_ptr<HttpExchange> exchange = NewExchange();
  exchange->frame = {.head_only = head.method == HttpMethod::kHead,
                     .http10 = head.minor_version == 0,
                     .close = !head.keep_alive};
  if (peer_ends_) exchange->PeerGone();
  (*shard_->handler)(std::move(request), HttpResponder(std::move(exchange)));
}

std::shared_ptr<HttpExchange> HttpConnection::NewExchange() {
  std::shared_ptr<HttpExchange> exchange;
  if (spare_ != nullptr && SoleOwner(spare_)) {
    exchange = std::move(spare_);
  } else {
    exchange = std::make_shared<HttpExchange>(loop_, shard_->options->write_backlog_bytes_max);
  }
  exchange->Attach(this);
  exchanges_.push_back(exchange);
  return exchange;
}

void HttpConnection::SendContinueIfDue() {
  if (!continue_due_ || !exchanges_.empty()) return;
  continue_due_ = false;
  output_.tail().append("HTTP/1.1 100 Continue\r\n\r\n");
}

void HttpConnection::RefuseForMemory() {
  Refuse({503, "the server's memory for requests is in use; try again later"});
}

// Nothing can be parsed after a fault: it is answered in its turn, and the connection ends.
void HttpConnection::Refuse(HttpFault fault) {
  shard_->counts.bad_requests.Add(1);
  stage_ = Stage::kRefusing;
  last_request_ = true;
  input_dropped_ = true;
  continue_due_ = false;
  request_start_ns_ = 0;
  begin_ = end_;
  head_memory_.reset();
  body_.reset();
  const std::shared_ptr<HttpExchange> exchange = NewExchange();
  exchange->frame = {.close = true};
  exchange->Send(ErrorResponse(fault.status, fault.message));
}

}  // namespace stoker::net::internal
