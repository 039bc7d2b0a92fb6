#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <stoker/net/event_loop.h>
#include <stoker/net/http_server.h>
#include <stoker/net/listener.h>

#include "http_output.h"
#include "http_parser.h"
#include "receive_memory.h"

namespace stoker::net::internal {

class HttpConnection;

/// A count that one thread adds to and any may read.
class OwnedCounter {
 public:
  void Add(uint64_t n) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

struct HttpCounts {
  OwnedCounter requests;
  OwnedCounter bad_requests;
  OwnedCounter timeouts;
  OwnedCounter bytes_in;
  OwnedCounter bytes_out;
};

/// What the connections of one server on one loop share. I/O thread only, but for the counts and
/// what is const. Outlives its connections.
struct HttpShard : std::enable_shared_from_this<HttpShard> {
  static constexpr size_t kBlockBytes = 64 << 10;

  HttpShard(EventLoop* loop_in, const HttpServerOptions* options_in, const HttpServer::Handler* handler_in)
      : loop(loop_in), options(options_in), handler(handler_in) {}

  EventLoop* const loop;
  const HttpServerOptions* const options;
  const HttpServer::Handler* const handler;
  Listener* listener = nullptr;
  HttpLimits limits;
  std::shared_ptr<ReceiveBudget> budget;  // of all shards; requests hold it beyond the server's life
  const std::atomic<bool>* draining = nullptr;
  HttpCounts counts;
  DateHeader date;

  std::vector<std::shared_ptr<HttpConnection>> connections;

  /// Memory to receive into (kBlockBytes) and for a copy of a small request. Both are given back
  /// after use, and serve the next one unless a request still points into them; then they are booked
  /// on the budget instead. Null when there is no memory.
  std::shared_ptr<ReceiveMemory> TakeBlock();
  void ReturnBlock(std::shared_ptr<ReceiveMemory> block);
  std::shared_ptr<ReceiveMemory> TakeSmall(size_t size);
  void ReturnSmall(std::shared_ptr<ReceiveMemory> small);

  /// Has `connection` pumped at the end of this round, once.
  void PumpAtRoundEnd(const std::shared_ptr<HttpConnection>& connection);
  void Add(std::shared_ptr<HttpConnection> connection);
  void Remove(HttpConnection* connection);
  /// Closes all connections and stops the timer.
  void CloseAll();
  void DrainAll();

 private:
  void ScheduleSweep();
  void Sweep();
  void PumpAll();

  EventLoop::TimerId sweep_timer_ = 0;  // runs while there are connections
  std::shared_ptr<ReceiveMemory> block_;
  std::shared_ptr<ReceiveMemory> small_;
  std::vector<std::shared_ptr<HttpConnection>> to_pump_;
};

}  // namespace stoker::net::internal
