#include "http_shard.h"

#include <algorithm>
#include <utility>

#include <stoker/base/clock.h>

#include "http_connection.h"

namespace stoker::net::internal {
namespace {

constexpr size_t kSmallBytesMin = 1 << 10;
constexpr int64_t kSweepNsMin = 5 * base::kNsPerMs;
constexpr int64_t kSweepNsMax = base::kNsPerSecond;

int64_t SweepPeriod(const HttpServerOptions& options) {
  const int64_t shortest = std::min({options.header_timeout_ns, options.body_timeout_ns,
                                     options.idle_timeout_ns, options.write_timeout_ns});
  return std::clamp(shortest / 4, kSweepNsMin, kSweepNsMax);
}

}  // namespace

std::shared_ptr<ReceiveMemory> HttpShard::TakeBlock() {
  if (block_ != nullptr) return std::move(block_);
  return ReceiveMemory::Allocate(kBlockBytes);
}

void HttpShard::ReturnBlock(std::shared_ptr<ReceiveMemory> block) {
  if (SoleOwner(block)) {
    if (!block->charged()) block_ = std::move(block);
  } else if (!block->charged()) {
    block->ChargeAnyway(budget, block->capacity());
  }
}

std::shared_ptr<ReceiveMemory> HttpShard::TakeSmall(size_t size) {
  if (small_ != nullptr && small_->capacity() >= size) return std::move(small_);
  return ReceiveMemory::Allocate(std::max(size, kSmallBytesMin));
}

void HttpShard::ReturnSmall(std::shared_ptr<ReceiveMemory> small) {
  if (SoleOwner(small)) {
    small_ = std::move(small);
  } else {
    small->ChargeAnyway(budget, small->capacity());
  }
}

void HttpShard::PumpAtRoundEnd(const std::shared_ptr<HttpConnection>& connection) {
  if (std::exchange(connection->pump_scheduled, true)) return;
  to_pump_.push_back(connection);
  if (to_pump_.size() == 1) loop->AtRoundEnd([self = shared_from_this()] { self->PumpAll(); });
}

void HttpShard::PumpAll() {
  for (size_t i = 0; i < to_pump_.size(); ++i) {  // a pump may schedule another one
    const std::shared_ptr<HttpConnection> connection = std::move(to_pump_[i]);
    connection->pump_scheduled = false;
    connection->Pump();
  }
  to_pump_.clear();
}

void HttpShard::Add(std::shared_ptr<HttpConnection> connection) {
  connection->shard_index = connections.size();
  connections.push_back(std::move(connection));
  if (sweep_timer_ == 0) ScheduleSweep();
}

void HttpShard::Remove(HttpConnection* connection) {
  const size_t index = connection->shard_index;
  const std::shared_ptr<HttpConnection> kept = std::move(connections[index]);
  if (index + 1 != connections.size()) {
    connections[index] = std::move(connections.back());
    connections[index]->shard_index = index;
  }
  connections.pop_back();
}

void HttpShard::ScheduleSweep() {
  sweep_timer_ = loop->After(SweepPeriod(*options), [self = shared_from_this()] { self->Sweep(); });
}

// Looking at every connection now and then costs less than moving a timer with each request.
void HttpShard::Sweep() {
  sweep_timer_ = 0;
  for (size_t i = connections.size(); i-- > 0;) {
    if (i >= connections.size()) continue;  // several were closed meanwhile
    const std::shared_ptr<HttpConnection> connection = connections[i];
    connection->CheckTimeouts(loop->now_ns());
  }
  if (!connections.empty() && sweep_timer_ == 0) ScheduleSweep();
}

void HttpShard::CloseAll() {
  while (!connections.empty()) {
    const std::shared_ptr<HttpConnection> connection = connections.back();
    connection->Close();
  }
  if (sweep_timer_ != 0) loop->CancelTimer(std::exchange(sweep_timer_, 0));
}

void HttpShard::DrainAll() {
  for (size_t i = connections.size(); i-- > 0;) {
    if (i >= connections.size()) continue;
    const std::shared_ptr<HttpConnection> connection = connections[i];
    connection->Drain();
  }
}

}  // namespace stoker::net::internal
