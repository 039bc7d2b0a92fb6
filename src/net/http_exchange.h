#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <stoker/base/bytes.h>
#include <stoker/base/mutex.h>
#include <stoker/net/event_loop.h>
#include <stoker/net/http_message.h>

#include "http_output.h"

namespace stoker::net::internal {

class HttpConnection;

/// What has been answered and the connection has not yet taken over.
struct HttpOutbox {
  bool has_head = false;
  bool stream = false;
  bool end = false;
  bool broken = false;  // the answer will never be complete
  HttpResponse head;
  std::vector<base::Bytes> parts;
};

/// One request's way back: filled by whoever answers, on any thread, emptied by the connection on
/// its I/O thread. Shared by both, because either may go first.
class HttpExchange : public std::enable_shared_from_this<HttpExchange> {
 public:
  HttpExchange(EventLoop* loop, size_t backlog_bytes_max)
      : loop_(loop), backlog_bytes_max_(backlog_bytes_max) {}

  // The answering side; any thread.
  void Send(HttpResponse response);
  void StartStream(HttpResponse head);
  bool Write(base::Bytes part);
  void Finish();
  /// The responder is dropped: what is not ended by now never will be.
  void Abandon();
  bool Disconnected();
  void OnDisconnect(std::function<void()> callback);

  // The connection's side; I/O thread.
  /// Begins (again, when reused) for a request of `connection`, which calls Detach before it dies.
  void Attach(HttpConnection* connection);
  HttpOutbox Take();
  /// The peer has closed or half-closed.
  void PeerGone();
  /// The connection is done with it, or closed.
  void Detach();

  ResponseFrame frame;  // I/O thread only

 private:
  enum class Phase : unsigned char { kWaiting, kStreaming, kDone };

  void Signal() REQUIRES(mutex_);
  void Deliver();

  EventLoop* const loop_;  // used only while attached: the loops outlive the connections, not the answers
  const size_t backlog_bytes_max_;
  base::Mutex mutex_;
  HttpConnection* connection_ GUARDED_BY(mutex_) = nullptr;
  Phase phase_ GUARDED_BY(mutex_) = Phase::kWaiting;
  bool disconnected_ GUARDED_BY(mutex_) = false;
  bool posted_ GUARDED_BY(mutex_) = false;  // a task that will call Deliver is on its way
  size_t parts_bytes_ GUARDED_BY(mutex_) = 0;
  HttpOutbox outbox_ GUARDED_BY(mutex_);
  std::function<void()> on_disconnect_ GUARDED_BY(mutex_);
};

}  // namespace stoker::net::internal
