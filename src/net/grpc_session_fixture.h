#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "grpc_session.h"
#include "h2_test_client.h"

namespace stoker::net::internal {

/// What the handlers of one call saw and may do; outlives them.
struct TestCall {
  std::shared_ptr<GrpcCall> call;
  std::vector<std::string> messages;
  int half_closes = 0;
  int cancels = 0;
  bool destroyed = false;
  bool keeps = false;
  std::vector<base::Bytes> kept;              // the messages themselves
  std::function<void(TestCall&)> on_message;  // after it was recorded
  std::function<void(TestCall&)> on_half_close;
};

class TestHandler final : public GrpcMethodHandler {
 public:
  explicit TestHandler(std::shared_ptr<TestCall> record) : record_(std::move(record)) {}
  ~TestHandler() override { record_->destroyed = true; }
  void OnMessage(base::Bytes message) override {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(message.data()) % 64, 0u);
    record_->messages.emplace_back(message.text());
    if (record_->keeps) record_->kept.push_back(message);
    if (record_->on_message) record_->on_message(*record_);
  }
  void OnHalfClose() override {
    ++record_->half_closes;
    if (record_->on_half_close) record_->on_half_close(*record_);
  }
  void OnCancel() override { ++record_->cancels; }

 private:
  const std::shared_ptr<TestCall> record_;
};

/// A server session and a client in one thread and without sockets: Pump carries bytes between them
/// until both are silent. Paths: /echo answers each message and the half-close; /hold does nothing,
/// /keep keeps its messages; others are unknown.
class GrpcSessionFixture : public ::testing::Test, public GrpcSessionHost {
 protected:
  class Port final : public GrpcPort {
   public:
    bool InOwnThread() const override { return in_own_thread; }
    void Post(GrpcAnswer answer) override { answers.push_back(std::move(answer)); }
    bool in_own_thread = true;
    std::vector<GrpcAnswer> answers;
  };

  void OnOutput() override {}
  int64_t NowNs() const override { return now_ns; }

  void Open() {
    shared = std::make_unique<GrpcShared>(
        options, [this](std::shared_ptr<GrpcCall> call) { return Dispatch(std::move(call)); });
    auto peer = std::make_shared<const GrpcPeer>(GrpcPeer{"peer:1", port, options.write_backlog_bytes_max});
    auto made = GrpcSession::Make(shared.get(), &counters, peer, this);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    session = *std::move(made);
  }

  std::unique_ptr<GrpcMethodHandler> Dispatch(std::shared_ptr<GrpcCall> call) {
    auto record = std::make_shared<TestCall>();
    record->call = call;
    if (call->path() == "/echo") {
      record->on_message = [](TestCall& c) { c.call->Write({base::Bytes::Own(c.messages.back())}); };
      record->on_half_close = [](TestCall& c) { c.call->Finish(base::OkStatus()); };
    } else if (call->path() == "/keep") {
      record->keeps = true;
    } else if (call->path() != "/hold") {
      return nullptr;
    }
    calls.push_back(record);
    return std::make_unique<TestHandler>(record);
  }

  base::Status Feed(std::string_view bytes) {
    return session->Receive(std::as_bytes(std::span<const char>(bytes.data(), bytes.size())));
  }
  std::string Drain(size_t bytes_max = 1 << 20) {
    H2Output output;
    EXPECT_TRUE(session->Produce(&output, bytes_max).ok());
    std::string bytes;
    while (!output.empty()) {
      std::array<iovec, 4> pieces;
      const size_t count = output.Gather(pieces);
      size_t taken = 0;
      for (size_t i = 0; i < count; ++i) {
        bytes.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
        taken += pieces[i].iov_len;
      }
      output.Consume(taken);
    }
    return bytes;
  }
  /// True while both sides take what the other sends.
  bool Pump() {
    for (;;) {
      const std::string up = client.TakeOutput();
      if (!up.empty() && !Feed(up).ok()) return false;
      for (GrpcAnswer& answer : std::exchange(port->answers, {})) GrpcStream::Apply(std::move(answer));
      const std::string down = Drain();
      if (!down.empty() && !client.Receive(down)) return false;
      if (up.empty() && down.empty()) return true;
    }
  }
  const H2TestClient::Answer& answer(int32_t id) { return client.answer(id); }

  GrpcServerOptions options;
  int64_t now_ns = 1'000'000'000'000;
  std::shared_ptr<Port> port = std::make_shared<Port>();
  H2TestClient client;
  std::unique_ptr<GrpcShared> shared;
  GrpcCounters counters;
  std::vector<std::shared_ptr<TestCall>> calls;
  std::unique_ptr<GrpcSession> session;
};

}  // namespace stoker::net::internal
