#include "grpc_lane.h"

#include <unistd.h>

#include <utility>

#include "grpc_connection.h"

namespace stoker::net::internal {

GrpcLane::GrpcLane(EventLoop* loop, std::shared_ptr<GrpcShared> shared, Listener* listener)
    : loop_(loop), shared_(std::move(shared)), listener_(listener), read_buffer_(new std::byte[kReadBytes]) {}

GrpcLane::~GrpcLane() = default;

void GrpcLane::Post(GrpcAnswer answer) {
  base::MutexLock lock(&mutex_);
  if (closed_) return;
  const bool first = answers_.empty();
  answers_.push_back(std::move(answer));
  // Under the lock: Close cannot pass, so the loop is still there.
  if (first) loop_->Post([self = shared_from_this()] { self->ApplyAnswers(); });
}

void GrpcLane::ApplyAnswers() {
  {
    base::MutexLock lock(&mutex_);
    applying_.swap(answers_);
  }
  for (GrpcAnswer& answer : applying_) GrpcStream::Apply(std::move(answer));
  applying_.clear();
}

void GrpcLane::Adopt(int fd, std::string peer) {
  thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  auto connection = std::make_unique<GrpcConnection>(this, fd, std::move(peer));
  GrpcConnection* const raw = connection.get();
  connections_.emplace(raw, std::move(connection));
  raw->Start();
  if (draining_) raw->Drain();
}

void GrpcLane::Drain() {
  draining_ = true;
  for (auto& [connection, owned] : connections_) connection->Drain();
}

void GrpcLane::Close() {
  thread_.store({}, std::memory_order_relaxed);
  std::vector<GrpcAnswer> dropped;
  {
    base::MutexLock lock(&mutex_);
    closed_ = true;
    dropped.swap(answers_);
  }
  std::vector<GrpcConnection*> open;
  for (auto& [connection, owned] : connections_) open.push_back(connection);
  for (GrpcConnection* connection : open) connection->Close();
  scheduled_.clear();
  retired_.clear();
}

void GrpcLane::ScheduleRoundEnd() {
  if (std::exchange(round_end_scheduled_, true)) return;
  loop_->AtRoundEnd([self = shared_from_this()] { self->EndRound(); });
}

void GrpcLane::Schedule(GrpcConnection* connection) {
  scheduled_.push_back(connection);
  ScheduleRoundEnd();
}

void GrpcLane::Retire(GrpcConnection* connection) {
  auto node = connections_.extract(connection);
  retired_.push_back(std::move(node.mapped()));
  listener_->Release(*loop_);
  ScheduleRoundEnd();
}

void GrpcLane::EndRound() {
  round_end_scheduled_ = false;
  std::vector<GrpcConnection*> due;
  due.swap(scheduled_);
  for (GrpcConnection* connection : due) connection->Flush();
  // What a flush scheduled again is flushed in the round end it asked for; nothing refers to these.
  if (!scheduled_.empty()) return;
  retired_.clear();
  due.clear();
  scheduled_.swap(due);  // keeps the memory
}

}  // namespace stoker::net::internal
