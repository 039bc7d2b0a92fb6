#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include <stoker/base/status.h>

#include "http_exchange.h"
#include "http_output.h"
#include "http_parser.h"
#include "http_shard.h"
#include "receive_memory.h"

namespace stoker::net::internal {

/// One accepted socket: bytes in, requests out to the handler, answers back in request order.
/// I/O thread only, but for backlog(). Owned by its shard; the loop's handler holds it too, so that
/// it survives being closed from within itself.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(HttpShard* shard, int fd, std::string peer);
  ~HttpConnection();

  /// Watches the socket. On failure the caller drops the connection.
  base::Status Start();
  /// Some exchange has something in its outbox.
  void Deliver();
  /// Reads on, answers and writes as far as that goes without waiting.
  void Pump();
  void CheckTimeouts(int64_t now_ns);
  /// The server takes no new requests: closes when idle, otherwise after the current answers.
  void Drain();
  /// Closes at once; pending answers are dropped.
  void Close();
  /// Answered bytes that are not written yet. Any thread.
  size_t backlog() const { return backlog_.load(std::memory_order_relaxed); }

  size_t shard_index = 0;       // where the shard keeps it
  bool pump_scheduled = false;  // by the shard

 private:
  enum class Stage : unsigned char {
    kHead,      // between requests or inside a header
    kBody,      // a body of known length that arrives in memory of its own
    kChunks,    // a chunked body
    kRefusing,  // input is dropped, answers still go out
    kLinger,    // all is written; waits for the peer to close so that it reads the last answer
    kClosed
  };
  // One step of parsing: whether the next one can follow at once.
  enum class Progress : unsigned char { kMade, kNeedsInput };

  void OnEvents(uint32_t events);
  void Receive();
  void ReceiveBody();
  size_t ReceiveInto(std::byte* data, size_t room);
  bool EnsureRoom();
  void OnPeerEnd();
  void DiscardInput();

  void Parse();
  Progress ParseHeadStep();
  Progress ParseChunksStep();
  bool BeginBody(HttpHead head, size_t head_size);
  bool AppendChunk(std::string_view data);
  void DispatchInline(HttpHead head, size_t head_size, size_t body_size);
  void DispatchCollected();
  void Dispatch(HttpHead head, std::shared_ptr<ReceiveMemory> owner, base::Bytes body);
  void Refuse(HttpFault fault);
  void RefuseForMemory();
  void SendContinueIfDue();
  std::shared_ptr<HttpExchange> NewExchange();

  void Advance();
  void Answer(HttpExchange& front, const HttpOutbox& outbox);
  void EndAnswers();
  bool Flush();
  void Settle();
  void StashInput();
  void UpdateEvents();
  bool MayParse() const;
  bool Idle() const;
  void Break();

  std::string_view unread() const {
    return memory_ == nullptr ? std::string_view() : memory_->text(begin_, end_ - begin_);
  }

  HttpShard* const shard_;
  EventLoop* const loop_;
  const int fd_;
  const std::shared_ptr<const std::string> peer_;  // shared with the memory of requests

  // Input: unread bytes lie in memory_ between begin_ and end_. Between events memory_ is held only
  // when there are some.
  std::shared_ptr<ReceiveMemory> memory_;
  bool memory_is_block_ = false;  // the shard's, to be given back by the end of the event
  size_t begin_ = 0;
  size_t end_ = 0;
  Stage stage_ = Stage::kHead;
  bool needs_input_ = true;
  HeadScanner scanner_;
  ChunkDecoder decoder_;
  HttpHead head_;  // of the request whose body is arriving
  std::shared_ptr<ReceiveMemory> head_memory_;
  std::shared_ptr<ReceiveMemory> body_;
  size_t body_size_ = 0;  // wanted (kBody)
  size_t body_got_ = 0;
  bool continue_due_ = false;   // the client waits for "100 Continue"
  bool peer_ends_ = false;      // its end of the stream is in sight: nobody waits for answers
  bool peer_closed_ = false;    // and has been read
  bool last_request_ = false;   // nothing is parsed after the current one
  bool input_dropped_ = false;  // input may still be coming that nobody reads

  // Output.
  std::deque<std::shared_ptr<HttpExchange>> exchanges_;  // unanswered, in request order
  std::shared_ptr<HttpExchange> spare_;                  // answered; used again once nobody holds it
  HttpOutput output_;
  std::atomic<size_t> backlog_{0};
  bool pumping_ = false;
  bool write_blocked_ = false;
  uint32_t events_ = 0;

  // Times for CheckTimeouts, of the rounds in which they happened.
  int64_t request_start_ns_ = 0;  // first byte of the request being received; 0: none
  int64_t read_progress_ns_ = 0;
  int64_t write_progress_ns_ = 0;
  int64_t idle_since_ns_ = 0;
};

}  // namespace stoker::net::internal
