// The server on real sockets and threads: answers, ends of connections, timers, and peers that stall.

#include <stoker/net/grpc_server.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include <stoker/base/executor.h>
#include <stoker/base/mutex.h>

#include "h2_test_client.h"

namespace stoker::net {
namespace {

using internal::GrpcFrame;
using internal::GrpcRequestFields;
using internal::H2TestClient;
using internal::TestFields;

constexpr int64_t kMs = 1'000'000;

// A connection that blocks until what it waits for has come.
class SocketClient {
 public:
  explicit SocketClient(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~SocketClient() { Close(); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  bool connected() const { return connected_; }
  H2TestClient& h2() { return h2_; }

  void SendRaw(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void Flush() { SendRaw(h2_.TakeOutput()); }
  /// Sends and receives until `done`; false when the connection ended before.
  bool Until(const std::function<bool()>& done) {
    Flush();
    while (!done()) {
      char buffer[65536];
      const ssize_t size = recv(fd_, buffer, sizeof(buffer), 0);
      if (size <= 0 || !h2_.Receive({buffer, static_cast<size_t>(size)})) return done();
      Flush();
    }
    return true;
  }
  bool UntilAnswered(int32_t id) {
    return Until([&] { return h2_.answer(id).closed; });
  }
  /// Waits for the server to end the connection.
  void UntilEnd() {
    EXPECT_FALSE(Until([] { return false; }));
  }
  std::string Call(std::string_view path, std::string_view message, TestFields fields = {}) {
    const int32_t id = h2_.Request(GrpcRequestFields(path, std::move(fields)), GrpcFrame(message));
    if (!UntilAnswered(id)) return "(connection ended)";
    const auto messages = h2_.answer(id).Messages();
    if (h2_.answer(id).status() != "0") return "(status " + h2_.answer(id).status() + ")";
    return messages.empty() ? "(none)" : messages[0];
  }

 private:
  int fd_;
  bool connected_ = false;
  H2TestClient h2_;
};

class GrpcServerTest : public ::testing::Test {
 protected:
  // What tests want to know of calls to /hold.
  struct Held {
    base::Mutex mutex;
    base::CondVar changed;
    std::vector<std::shared_ptr<GrpcCall>> calls GUARDED_BY(mutex);
    int cancels GUARDED_BY(mutex) = 0;

    void WaitForCalls(size_t count) {
      base::MutexLock lock(&mutex);
      while (calls.size() < count) changed.Wait(&mutex);
    }
    void WaitForCancels(int count) {
      base::MutexLock lock(&mutex);
      while (cancels < count) changed.Wait(&mutex);
    }
    std::shared_ptr<GrpcCall> call(size_t index) {
      base::MutexLock lock(&mutex);
      return calls.at(index);
    }
  };

  class Holding final : public GrpcMethodHandler {
   public:
    Holding(std::shared_ptr<Held> held, std::shared_ptr<GrpcCall> call) : held_(std::move(held)) {
      base::MutexLock lock(&held_->mutex);
      held_->calls.push_back(std::move(call));
      held_->changed.NotifyAll();
    }
    void OnMessage(base::Bytes) override {}
    void OnHalfClose() override {}
    void OnCancel() override {
      base::MutexLock lock(&held_->mutex);
      ++held_->cancels;
      held_->changed.NotifyAll();
    }

   private:
    const std::shared_ptr<Held> held_;
  };

  class Echoing final : public GrpcMethodHandler {
   public:
    Echoing(std::shared_ptr<GrpcCall> call, base::Executor* executor)
        : call_(std::move(call)), executor_(executor) {}
    void OnMessage(base::Bytes message) override { messages_.push_back(std::move(message)); }
    void OnHalfClose() override {
      auto answer = [call = call_, messages = std::move(messages_)] {
        for (const base::Bytes& message : messages) call->Write({message});
        call->Finish(base::OkStatus());
      };
      if (executor_ == nullptr) {
        answer();
      } else {
        ASSERT_TRUE(executor_->Submit(answer).ok());
      }
    }
    void OnCancel() override {}

   private:
    std::vector<base::Bytes> messages_;
    const std::shared_ptr<GrpcCall> call_;
    base::Executor* const executor_;
  };

  void Start(GrpcServerOptions options = {}, size_t loop_count = 2) {
    auto started = EventLoops::Start(loop_count);
    ASSERT_TRUE(started.ok());
    loops = *std::move(started);
    options.port = 0;
    auto listening = GrpcServer::Listen(
        options, loops.get(), [this](std::shared_ptr<GrpcCall> call) -> std::unique_ptr<GrpcMethodHandler> {
          if (call->path() == "/echo") return std::make_unique<Echoing>(std::move(call), nullptr);
          if (call->path() == "/hop") return std::make_unique<Echoing>(std::move(call), &executor);
          if (call->path() == "/hold") return std::make_unique<Holding>(held, std::move(call));
          return nullptr;
        });
    ASSERT_TRUE(listening.ok()) << listening.status().ToString();
    server = *std::move(listening);
  }
  void WaitForConnections(size_t count) {
    while (server->open_connections() != count) std::this_thread::yield();
  }

  const std::shared_ptr<Held> held = std::make_shared<Held>();
  base::Executor executor{{.name = "hop", .threads = 2}};
  std::unique_ptr<EventLoops> loops;
  std::unique_ptr<GrpcServer> server;
};

TEST_F(GrpcServerTest, ManyCallsOnManyConnections) {
  Start();
  constexpr int kClients = 4;
  constexpr int kRounds = 20;
  constexpr int kCalls = 50;
  std::atomic<int> right{0};
  std::vector<std::jthread> threads;
  threads.reserve(kClients);
  for (int c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      SocketClient client(server->port());
      for (int round = 0; round < kRounds; ++round) {
        std::vector<std::pair<int32_t, std::string>> sent;
        for (int i = 0; i < kCalls; ++i) {
          const std::string message = "message " + std::to_string(c * 1'000'000 + round * 1000 + i);
          sent.emplace_back(
              client.h2().Request(GrpcRequestFields(i % 2 == 0 ? "/echo" : "/hop"), GrpcFrame(message)),
              message);
        }
        for (const auto& [id, message] : sent) {
          if (!client.UntilAnswered(id)) return;
          const auto& answer = client.h2().answer(id);
          if (answer.status() == "0" && answer.Messages() == std::vector<std::string>{message}) ++right;
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(right, kClients * kRounds * kCalls);
  WaitForConnections(0);
  EXPECT_EQ(server->open_calls(), 0u);
  const GrpcServer::Counters counters = server->counters();
  EXPECT_EQ(counters.accepted, uint64_t{kClients});
  EXPECT_EQ(counters.calls, uint64_t{kClients * kRounds * kCalls});
  EXPECT_EQ(counters.offences, 0u);
  EXPECT_GT(counters.bytes_in, counters.calls * 20);
  EXPECT_GT(counters.bytes_out, counters.calls * 20);
}

TEST_F(GrpcServerTest, LargeMessage) {
  Start();
  std::string large(20 << 20, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 2654435761u >> 13);
  SocketClient client(server->port());
  EXPECT_TRUE(client.Call("/echo", large) == large);
  EXPECT_TRUE(client.Call("/hop", large) == large);
}

TEST_F(GrpcServerTest, TakenPortNamesItsOption) {
  Start();
  const auto second = GrpcServer::Listen({.port = server->port()}, loops.get(), nullptr);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find("--grpc-port"), std::string::npos) << second.status().ToString();
}

TEST_F(GrpcServerTest, ImpossibleWindowIsRefused) {
  Start();
  const auto second = GrpcServer::Listen({.port = 0, .stream_window_bytes = 1u << 31}, loops.get(), nullptr);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find("stream_window_bytes"), std::string::npos)
      << second.status().ToString();
}

TEST_F(GrpcServerTest, LostConnectionCancels) {
  Start();
  SocketClient client(server->port());
  for (int i = 0; i < 3; ++i) client.h2().Request(GrpcRequestFields("/hold"), GrpcFrame("x"), i == 0);
  client.Flush();
  held->WaitForCalls(3);
  EXPECT_EQ(server->open_calls(), 3u);
  client.Close();
  held->WaitForCancels(3);
  WaitForConnections(0);
  EXPECT_EQ(server->open_calls(), 0u);
  EXPECT_TRUE(held->call(0)->cancelled());
  EXPECT_FALSE(held->call(0)->Write({}));
}

TEST_F(GrpcServerTest, DeadlineIsKeptByATimer) {
  Start();
  SocketClient client(server->port());
  EXPECT_EQ(client.Call("/hold", "x", {{"grpc-timeout", "20m"}}), "(status 4)");
  EXPECT_EQ(client.Call("/hold", "x", {{"grpc-timeout", "1m"}}), "(status 4)");
  EXPECT_EQ(client.Call("/echo", "x", {{"grpc-timeout", "1H"}}), "x");
  held->WaitForCancels(2);
}

TEST_F(GrpcServerTest, DrainLetsCallsEndAndClosesConnections) {
  Start();
  SocketClient busy(server->port());
  SocketClient idle(server->port());
  const int32_t id = busy.h2().Request(GrpcRequestFields("/hold"), GrpcFrame("x"));
  busy.Flush();
  EXPECT_EQ(idle.Call("/echo", "x"), "x");
  held->WaitForCalls(1);
  server->Drain();
  idle.UntilEnd();
  EXPECT_TRUE(idle.h2().goaway());
  EXPECT_EQ(idle.h2().goaway_error(), 0u);
  ASSERT_TRUE(busy.Until([&] { return busy.h2().goaway(); }));
  EXPECT_FALSE(held->call(0)->cancelled());
  EXPECT_TRUE(held->call(0)->Write({base::Bytes::Own("late")}));
  held->call(0)->Finish(base::OkStatus());
  busy.UntilEnd();
  EXPECT_EQ(busy.h2().answer(id).status(), "0");
  EXPECT_EQ(busy.h2().answer(id).Messages(), std::vector<std::string>{"late"});
  busy.Close();
  idle.Close();
  WaitForConnections(0);
  EXPECT_FALSE(SocketClient(server->port()).connected());
}

TEST_F(GrpcServerTest, DrainEndsThoughTheClientIsSilent) {
  Start();
  SocketClient mute(server->port());
  mute.Flush();
  WaitForConnections(1);
  server->Drain();
  WaitForConnections(0);  // it neither reads nor answers
}

TEST_F(GrpcServerTest, SlowHandshakeIsCut) {
  Start({.handshake_timeout_ns = 30 * kMs});
  SocketClient silent(server->port());
  SocketClient slow(server->port());
  slow.SendRaw("PRI * HTTP/2.0\r\n");
  SocketClient good(server->port());
  EXPECT_EQ(good.Call("/echo", "x"), "x");
  WaitForConnections(1);
  EXPECT_EQ(good.Call("/echo", "y"), "y");
}

TEST_F(GrpcServerTest, DeadPeerIsNoticed) {
  Start({.keepalive_time_ns = 20 * kMs, .keepalive_timeout_ns = 20 * kMs});
  SocketClient dead(server->port());
  dead.h2().Request(GrpcRequestFields("/hold"), GrpcFrame("x"));
  dead.Flush();  // and never reads: no answer to pings
  held->WaitForCancels(1);
  WaitForConnections(0);
}

TEST_F(GrpcServerTest, IdleConnectionIsClosed) {
  Start({.idle_timeout_ns = 20 * kMs});
  SocketClient client(server->port());
  const int32_t id = client.h2().Request(GrpcRequestFields("/echo"), GrpcFrame("x"));
  client.UntilEnd();
  EXPECT_TRUE(client.h2().goaway());
  EXPECT_EQ(client.h2().answer(id).status(), "0");
}

TEST_F(GrpcServerTest, PeerThatDoesNotReadIsCut) {
  Start({.write_timeout_ns = 50 * kMs});
  SocketClient stalled(server->port());
  stalled.h2().WindowUpdate(0, 1 << 30);
  for (int i = 0; i < 60; ++i) stalled.h2().Request(GrpcRequestFields("/hold"), GrpcFrame("x"));
  stalled.Flush();
  held->WaitForCalls(60);
  // More than sockets buffer, within each stream's window of 1 MiB.
  for (size_t i = 0; i < 60; ++i) held->call(i)->Write({base::Bytes::Own(std::string(900'000, 'x'))});
  held->WaitForCancels(1);
  WaitForConnections(0);
  SocketClient other(server->port());
  EXPECT_EQ(other.Call("/echo", "x"), "x");
}

TEST_F(GrpcServerTest, FloodHarmsItsOwnConnectionOnly) {
  Start({}, 1);
  SocketClient good(server->port());
  EXPECT_EQ(good.Call("/echo", "before"), "before");
  SocketClient bad(server->port());
  bad.Flush();
  std::string pings;
  for (int i = 0; i < 5000; ++i) pings += internal::RawFrame(6, 0, 0, "12345678");
  bad.SendRaw(pings);
  bad.UntilEnd();
  EXPECT_TRUE(bad.h2().goaway());
  EXPECT_EQ(bad.h2().goaway_error(), 11u);
  bad.Close();
  WaitForConnections(1);
  EXPECT_EQ(server->counters().offences, 1u);
  EXPECT_EQ(good.Call("/echo", "after"), "after");
}

TEST_F(GrpcServerTest, ConnectionsAreLimited) {
  Start({.connections_max = 1});
  SocketClient first(server->port());
  EXPECT_EQ(first.Call("/echo", "x"), "x");
  SocketClient second(server->port());
  second.UntilEnd();
  first.Close();
  WaitForConnections(0);
  SocketClient third(server->port());
  EXPECT_EQ(third.Call("/echo", "x"), "x");
}

TEST_F(GrpcServerTest, CallsOutliveTheServer) {
  Start();
  SocketClient client(server->port());
  client.h2().Request(GrpcRequestFields("/hold"), GrpcFrame("x"));
  client.Flush();
  held->WaitForCalls(1);
  std::atomic<bool> stop{false};
  std::latch running(1);
  std::jthread writer([&] {
    const std::shared_ptr<GrpcCall> call = held->call(0);
    running.count_down();
    while (!stop) call->Write({base::Bytes::Static("x")});
    call->Finish(base::OkStatus());
  });
  running.wait();
  server.reset();
  loops.reset();
  stop = true;
  writer.join();
  EXPECT_TRUE(held->call(0)->cancelled());
}

TEST_F(GrpcServerTest, LoopsMayStopFirst) {
  Start();
  SocketClient client(server->port());
  client.h2().Request(GrpcRequestFields("/hold"), GrpcFrame("x"));
  client.Flush();
  held->WaitForCalls(1);
  loops->Stop();
  server.reset();
  EXPECT_TRUE(held->call(0)->cancelled());
}

}  // namespace
}  // namespace stoker::net
