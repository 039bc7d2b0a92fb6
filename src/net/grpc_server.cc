#include <stoker/net/grpc_server.h>

#include <utility>
#include <vector>

#include <stoker/base/str_cat.h>
#include <stoker/net/listener.h>

#include "grpc_lane.h"

namespace stoker::net {
namespace {

constexpr size_t kH2BytesMax = (1u << 31) - 1;  // of windows and sizes, by RFC 9113

base::Status Check(const GrpcServerOptions& options) {
  for (const auto& [name, bytes] :
       {std::pair<const char*, size_t>{"stream_window_bytes", options.stream_window_bytes},
        {"connection_window_bytes", options.connection_window_bytes},
        {"header_bytes_max", options.header_bytes_max}}) {
    if (bytes > 0 && bytes <= kH2BytesMax) continue;
    return base::InvalidArgument(base::StrCat(name, " of the ", options.name, " server is ", bytes,
                                              "; HTTP/2 takes 1 to ", kH2BytesMax));
  }
  return base::OkStatus();
}

}  // namespace

struct GrpcServer::State {
  EventLoops* loops = nullptr;
  std::shared_ptr<internal::GrpcShared> shared;
  std::unique_ptr<Listener> listener;
  std::vector<std::shared_ptr<internal::GrpcLane>> lanes;  // by loop; shared with the calls
};

base::Result<std::unique_ptr<GrpcServer>> GrpcServer::Listen(GrpcServerOptions options, EventLoops* loops,
                                                             GrpcDispatcher dispatcher) {
  STOKER_RETURN_IF_ERROR(Check(options));
  auto state = std::make_shared<State>();
  state->loops = loops;
  STOKER_ASSIGN_OR_RETURN(state->listener, Listener::Listen({.name = options.name,
                                                             .address = options.address,
                                                             .port = options.port,
                                                             .port_option = options.port_option,
                                                             .reuse_port = options.reuse_port,
                                                             .connections_max = options.connections_max},
                                                            loops));
  state->shared = std::make_shared<internal::GrpcShared>(std::move(options), std::move(dispatcher));
  for (size_t i = 0; i < loops->size(); ++i) {
    state->lanes.push_back(
        std::make_shared<internal::GrpcLane>(&loops->at(i), state->shared, state->listener.get()));
  }
  state->listener->Start([raw = state.get()](EventLoop& loop, int fd, std::string peer) {
    raw->lanes[static_cast<size_t>(loop.index())]->Adopt(fd, std::move(peer));
  });
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(state)));
}

GrpcServer::GrpcServer(std::shared_ptr<State> state) : state_(std::move(state)) {}

GrpcServer::~GrpcServer() {
  state_->listener->CloseAndWait();
  state_->loops->RunOnAll(
      [this](EventLoop& loop) { state_->lanes[static_cast<size_t>(loop.index())]->Close(); });
}

uint16_t GrpcServer::port() const { return state_->listener->port(); }

void GrpcServer::Drain() {
  state_->listener->Close();
  for (const auto& lane : state_->lanes) lane->loop().Post([lane] { lane->Drain(); });
}

size_t GrpcServer::open_connections() const { return state_->listener->open_connections(); }

size_t GrpcServer::open_calls() const {
  size_t open = 0;
  for (const auto& lane : state_->lanes) open += lane->counters().open_calls.load(std::memory_order_relaxed);
  return open;
}

GrpcServer::Counters GrpcServer::counters() const {
  Counters sum{.accepted = state_->listener->accepted(), .refused = state_->listener->refused()};
  for (const auto& lane : state_->lanes) {
    const internal::GrpcCounters& counters = lane->counters();
    sum.calls += counters.calls.load(std::memory_order_relaxed);
    sum.offences += counters.offences.load(std::memory_order_relaxed);
    sum.bytes_in += counters.bytes_in.load(std::memory_order_relaxed);
    sum.bytes_out += counters.bytes_out.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace stoker::net
