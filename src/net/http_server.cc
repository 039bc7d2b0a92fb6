#include <stoker/net/http_server.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include <stoker/base/str_cat.h>
#include <stoker/net/listener.h>

#include "http_connection.h"
#include "http_shard.h"

namespace stoker::net {

using internal::HttpConnection;
using internal::HttpShard;

struct HttpServer::State {
  HttpServerOptions options;
  EventLoops* loops = nullptr;
  Handler handler;
  std::atomic<bool> draining{false};
  std::vector<std::shared_ptr<HttpShard>> shards;  // one a loop; shared with what the loops still have to run
  std::unique_ptr<Listener> listener;

  void MakeShards();
  void OnConnection(EventLoop& loop, int fd, std::string peer);
};

void HttpServer::State::MakeShards() {
  const auto budget = std::make_shared<internal::ReceiveBudget>(options.buffered_bytes_max);
  for (size_t i = 0; i < loops->size(); ++i) {
    auto shard = std::make_shared<HttpShard>(&loops->at(i), &options, &handler);
    shard->listener = listener.get();
    shard->limits = {options.header_bytes_max, options.header_count_max, options.body_bytes_max,
                     options.chunk_count_max};
    shard->budget = budget;
    shard->draining = &draining;
    shards.push_back(std::move(shard));
  }
}

void HttpServer::State::OnConnection(EventLoop& loop, int fd, std::string peer) {
  HttpShard& shard = *shards[static_cast<size_t>(loop.index())];
  auto connection = std::make_shared<HttpConnection>(&shard, fd, std::move(peer));
  if (!connection->Start().ok()) {
    listener->Release(loop);
    return;
  }
  shard.Add(std::move(connection));
}

base::Result<std::unique_ptr<HttpServer>> HttpServer::Listen(HttpServerOptions options, EventLoops* loops,
                                                             Handler handler) {
  ListenerOptions listen;
  listen.name = options.name;
  listen.address = options.address;
  listen.port = options.port;
  listen.port_option = options.port_option;
  listen.reuse_port = options.reuse_port;
  listen.connections_max = options.connections_max;
  const std::string_view body = "{\"error\":\"the server has too many connections open; try again later\"}";
  listen.refusal = base::StrCat(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: ", body.size(),
      "\r\nConnection: close\r\n\r\n", body);
  STOKER_ASSIGN_OR_RETURN(auto listener, Listener::Listen(std::move(listen), loops));
  auto state = std::make_shared<State>();
  state->options = std::move(options);
  state->options.pipelined_max = std::max<size_t>(state->options.pipelined_max, 1);
  state->loops = loops;
  state->handler = std::move(handler);
  state->listener = std::move(listener);
  state->MakeShards();
  state->listener->Start([state = state.get()](EventLoop& loop, int fd, std::string peer) {
    state->OnConnection(loop, fd, std::move(peer));
  });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::HttpServer(std::shared_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() {
  state_->listener->CloseAndWait();
  state_->loops->RunOnAll(
      [this](EventLoop& loop) { state_->shards[static_cast<size_t>(loop.index())]->CloseAll(); });
}

uint16_t HttpServer::port() const { return state_->listener->port(); }

void HttpServer::Drain() {
  state_->draining = true;
  state_->listener->Close();
  for (const auto& shard : state_->shards) {
    shard->loop->Post([shard] { shard->DrainAll(); });
  }
}

size_t HttpServer::open_connections() const { return state_->listener->open_connections(); }

HttpServer::Counters HttpServer::counters() const {
  Counters sum{};
  sum.accepted = state_->listener->accepted();
  sum.refused = state_->listener->refused();
  for (const auto& shard : state_->shards) {
    sum.requests += shard->counts.requests.value();
    sum.bad_requests += shard->counts.bad_requests.value();
    sum.timeouts += shard->counts.timeouts.value();
    sum.bytes_in += shard->counts.bytes_in.value();
    sum.bytes_out += shard->counts.bytes_out.value();
  }
  return sum;
}

}  // namespace stoker::net
