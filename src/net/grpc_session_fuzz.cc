// A client that sends anything: HTTP/2 frames and gRPC messages in one connection. The input is cut into
// pieces as reads might deliver it; time passes between them.

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <stoker/base/check.h>

#include "grpc_session.h"
#include "grpc_wire.h"

namespace stoker::net::internal {
namespace {

constexpr size_t kBudgetBytes = 1 << 20;

class Host final : public GrpcSessionHost, public GrpcPort {
 public:
  void OnOutput() override {}
  int64_t NowNs() const override { return now_ns; }
  bool InOwnThread() const override { return in_own_thread; }
  void Post(GrpcAnswer answer) override { answers.push_back(std::move(answer)); }
  int64_t now_ns = 1'000'000'000;
  bool in_own_thread = true;
  std::vector<GrpcAnswer> answers;
};

class Echo final : public GrpcMethodHandler {
 public:
  explicit Echo(std::shared_ptr<GrpcCall> call) : call_(std::move(call)) {}
  void OnMessage(base::Bytes message) override {
    CHECK(!ended_);
    call_->Write({std::move(message)});
  }
  void OnHalfClose() override {
    CHECK(!ended_);
    call_->Finish(base::OkStatus(), call_->metadata());
    ended_ = true;
  }
  void OnCancel() override {
    CHECK(!ended_);
    ended_ = true;
  }

 private:
  const std::shared_ptr<GrpcCall> call_;
  bool ended_ = false;
};

void Run(const uint8_t* data, size_t size) {
  auto host = std::make_shared<Host>();
  GrpcServerOptions options;
  options.message_bytes_max = 1 << 16;
  options.buffered_bytes_max = kBudgetBytes;
  options.write_backlog_bytes_max = 1 << 16;
  options.streams_max = 16;
  options.gzip_responses = true;
  GrpcShared shared(options, [](std::shared_ptr<GrpcCall> call) -> std::unique_ptr<GrpcMethodHandler> {
    if (call->path().size() > 1 && call->path()[1] == 'x') return nullptr;
    return std::make_unique<Echo>(std::move(call));
  });
  GrpcCounters counters;
  auto peer = std::make_shared<const GrpcPeer>(GrpcPeer{"fuzz", host, options.write_backlog_bytes_max});
  auto made = GrpcSession::Make(&shared, &counters, peer, host.get());
  CHECK(made.ok());
  std::unique_ptr<GrpcSession> session = *std::move(made);
  H2Output output;
  while (size > 0 && !session->finished()) {
    // The first byte of each piece says how long it is and what happens behind it.
    const uint8_t control = *data++;
    --size;
    const size_t piece = std::min<size_t>(size, (control & 0x3f) == 0x3f ? size : (control & 0x3f) * 8 + 1);
    const bool alive = session->Receive(std::as_bytes(std::span(data, piece))).ok();
    data += piece;
    size -= piece;
    host->in_own_thread = (control & 0x40) == 0;
    for (GrpcAnswer& answer : std::exchange(host->answers, {})) GrpcStream::Apply(std::move(answer));
    if (!alive || ((control & 0x80) != 0 && !session->Produce(&output, 1 << 14).ok())) break;
    output.Consume(output.size());
    host->now_ns += 1'000'000'000;
    if (session->next_time_ns() <= host->now_ns) session->OnTime();
    CHECK(shared.budget.used_bytes() <= kBudgetBytes);
    CHECK(session->open_calls() <= options.streams_max);
  }
  session.reset();
  host->answers.clear();
  CHECK(shared.budget.used_bytes() == 0 && counters.open_calls == 0);
}

}  // namespace
}  // namespace stoker::net::internal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stoker::net::internal::Run(data, size);
  return 0;
}
