#include "http_exchange.h"

#include <utility>

#include <stoker/net/http_server.h>

#include "http_connection.h"

namespace stoker::net {
namespace internal {

using base::MutexLock;

// On the I/O thread the connection is told at once (by Deliver, after the lock is released);
// otherwise by one task, however much is answered until it runs.
void HttpExchange::Signal() {
  if (connection_ == nullptr || posted_ || loop_->InLoopThread()) return;
  posted_ = true;
  loop_->Post([self = shared_from_this()] {
    {
      MutexLock lock(&self->mutex_);
      self->posted_ = false;
    }
    self->Deliver();
  });
}

void HttpExchange::Deliver() {
  HttpConnection* connection = nullptr;
  {
    MutexLock lock(&mutex_);
    if (connection_ == nullptr || !loop_->InLoopThread()) return;
    connection = connection_;  // stays valid: only this thread closes it
  }
  connection->Deliver();
}

void HttpExchange::Send(HttpResponse response) {
  std::function<void()> unused;  // destroyed after the lock is released
  {
    MutexLock lock(&mutex_);
    if (phase_ != Phase::kWaiting) return;
    phase_ = Phase::kDone;
    unused.swap(on_disconnect_);
    if (connection_ == nullptr) return;
    outbox_.has_head = true;
    outbox_.end = true;
    outbox_.head = std::move(response);
    Signal();
  }
  Deliver();
}

void HttpExchange::StartStream(HttpResponse head) {
  {
    MutexLock lock(&mutex_);
    if (phase_ != Phase::kWaiting) return;
    phase_ = Phase::kStreaming;
    if (connection_ == nullptr) return;
    outbox_.has_head = true;
    outbox_.stream = true;
    outbox_.head = std::move(head);
    Signal();
  }
  Deliver();
}

bool HttpExchange::Write(base::Bytes part) {
  std::function<void()> unused;
  bool accepted = false;
  {
    MutexLock lock(&mutex_);
    if (phase_ != Phase::kStreaming || connection_ == nullptr) return false;
    accepted = parts_bytes_ + connection_->backlog() + part.size() <= backlog_bytes_max_;
    if (accepted) {
      parts_bytes_ += part.size();
      outbox_.parts.push_back(std::move(part));
    } else {
      phase_ = Phase::kDone;
      outbox_.broken = true;
      unused.swap(on_disconnect_);
    }
    Signal();
  }
  Deliver();
  return accepted;
}

void HttpExchange::Finish() {
  std::function<void()> unused;
  {
    MutexLock lock(&mutex_);
    if (phase_ != Phase::kStreaming) return;
    phase_ = Phase::kDone;
    unused.swap(on_disconnect_);
    if (connection_ == nullptr) return;
    outbox_.end = true;
    Signal();
  }
  Deliver();
}

void HttpExchange::Abandon() {
  std::function<void()> unused;
  {
    MutexLock lock(&mutex_);
    if (phase_ == Phase::kDone) return;
    const bool begun = std::exchange(phase_, Phase::kDone) == Phase::kStreaming;
    unused.swap(on_disconnect_);
    if (connection_ == nullptr) return;
    if (begun) {
      outbox_.broken = true;
    } else {
      outbox_.has_head = true;
      outbox_.end = true;
      outbox_.head = ErrorResponse(
          500, "the server gave up on this request without an answer; this is a fault of the server");
    }
    Signal();
  }
  Deliver();
}

bool HttpExchange::Disconnected() {
  MutexLock lock(&mutex_);
  return disconnected_;
}

void HttpExchange::OnDisconnect(std::function<void()> callback) {
  {
    MutexLock lock(&mutex_);
    if (phase_ == Phase::kDone) return;
    if (!disconnected_) {
      on_disconnect_ = std::move(callback);
      return;
    }
  }
  callback();
}

void HttpExchange::Attach(HttpConnection* connection) {
  MutexLock lock(&mutex_);
  connection_ = connection;
  phase_ = Phase::kWaiting;
  disconnected_ = false;
}

HttpOutbox HttpExchange::Take() {
  MutexLock lock(&mutex_);
  parts_bytes_ = 0;
  return std::exchange(outbox_, {});
}

void HttpExchange::PeerGone() {
  std::function<void()> callback;
  {
    MutexLock lock(&mutex_);
    if (phase_ == Phase::kDone) return;
    disconnected_ = true;
    callback.swap(on_disconnect_);
  }
  if (callback) callback();
}

void HttpExchange::Detach() {
  HttpOutbox unused;
  MutexLock lock(&mutex_);
  connection_ = nullptr;
  parts_bytes_ = 0;
  unused = std::exchange(outbox_, {});
}

}  // namespace internal

HttpResponder::HttpResponder(std::shared_ptr<internal::HttpExchange> exchange)
    : exchange_(std::move(exchange)) {}
HttpResponder::HttpResponder(HttpResponder&&) noexcept = default;

HttpResponder& HttpResponder::operator=(HttpResponder&& other) noexcept {
  if (this == &other) return *this;
  if (exchange_ != nullptr) exchange_->Abandon();
  exchange_ = std::move(other.exchange_);
  return *this;
}

HttpResponder::~HttpResponder() {
  if (exchange_ != nullptr) exchange_->Abandon();
}

void HttpResponder::Send(HttpResponse response) {
  if (exchange_ != nullptr) exchange_->Send(std::move(response));
}

void HttpResponder::StartStream(HttpResponse head) {
  if (exchange_ != nullptr) exchange_->StartStream(std::move(head));
}

bool HttpResponder::Write(base::Bytes part) {
  return exchange_ != nullptr && exchange_->Write(std::move(part));
}

void HttpResponder::Finish() {
  if (exchange_ != nullptr) exchange_->Finish();
}

bool HttpResponder::Disconnected() const { return exchange_ == nullptr || exchange_->Disconnected(); }

void HttpResponder::OnDisconnect(std::function<void()> callback) {
  if (exchange_ != nullptr) exchange_->OnDisconnect(std::move(callback));
}

}  // namespace stoker::net
