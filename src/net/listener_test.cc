// Aim: connections are spread evenly, refusals are said, and want of descriptors neither spins nor
// kills the listener. Method: real sockets against real loops.

#include <stoker/net/listener.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include <stoker/base/mutex.h>

namespace stoker::net {
namespace {

int Connect(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

std::string ReadAll(int fd) {
  std::string text;
  char buffer[256];
  for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(n));
  return text;
}

class ListenerTest : public ::testing::Test {
 protected:
  struct Accepted {
    int fd;
    int loop;
    std::string peer;
  };
  void Listen(ListenerOptions options, ptrdiff_t expected) {
    arrived_ = std::make_unique<std::latch>(expected);
    auto listener = Listener::Listen(std::move(options), loops_.get());
    ASSERT_TRUE(listener.ok()) << listener.status().ToString();
    listener_ = std::move(listener).value();
    listener_->Start([this](EventLoop& loop, int fd, std::string peer) {
      EXPECT_TRUE(loop.InLoopThread());
      accepted_.With([&](auto& list) { list.push_back({fd, loop.index(), std::move(peer)}); });
      arrived_->count_down();
    });
  }
  std::vector<Accepted> Take() {
    return accepted_.With([](auto& list) { return std::exchange(list, {}); });
  }
  void TearDown() override {
    for (const auto& one : Take()) close(one.fd);
    for (const int fd : clients_) close(fd);
  }

  std::unique_ptr<EventLoops> loops_ = std::move(EventLoops::Start(2)).value();
  base::Guarded<std::vector<Accepted>> accepted_;
  std::unique_ptr<std::latch> arrived_;
  std::unique_ptr<Listener> listener_;
  std::vector<int> clients_;
};

TEST_F(ListenerTest, SixtyFourConnectionsOverTwoLoopsGiveThirtyTwoEach) {
  Listen({.name = "test"}, 64);
  for (int i = 0; i < 64; ++i) clients_.push_back(Connect(listener_->port()));
  arrived_->wait();
  int by_loop[2] = {};
  for (const auto& one : accepted_.With([](auto& list) { return list; })) {
    ++by_loop[one.loop];
    EXPECT_EQ(one.peer.substr(0, 10), "127.0.0.1:");
    int value = 0;
    socklen_t size = sizeof(value);
    EXPECT_EQ(getsockopt(one.fd, IPPROTO_TCP, TCP_NODELAY, &value, &size), 0);
    EXPECT_NE(value, 0);
    EXPECT_TRUE(fcntl(one.fd, F_GETFL) & O_NONBLOCK);
  }
  EXPECT_EQ(by_loop[0], 32);
  EXPECT_EQ(by_loop[1], 32);
  EXPECT_EQ(listener_->open_connections(), 64u);
  EXPECT_EQ(listener_->accepted(), 64u);
}

TEST_F(ListenerTest, TheLoopWithFewestConnectionsGetsTheNext) {
  Listen({.name = "test"}, 8);
  for (int i = 0; i < 4; ++i) clients_.push_back(Connect(listener_->port()));
  while (listener_->open_connections() < 4) std::this_thread::yield();
  listener_->Release(loops_->at(1));
  listener_->Release(loops_->at(1));
  for (int i = 0; i < 4; ++i) clients_.push_back(Connect(listener_->port()));
  arrived_->wait();
  int later[2] = {};
  const auto all = accepted_.With([](auto& list) { return list; });
  for (const auto& one : all) ++later[one.loop];
  EXPECT_EQ(later[0], 3);  // 2 + 1
  EXPECT_EQ(later[1], 5);  // 2 + 3: two were gone
}

TEST_F(ListenerTest, ATakenPortNamesPortAddressAndOption) {
  Listen({.name = "test"}, 0);
  const auto second = Listener::Listen(
      {.name = "test", .port = listener_->port(), .port_option = "--http-port"}, loops_.get());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), base::StatusCode::kUnavailable);
  const std::string wanted =
      "port " + std::to_string(listener_->port()) + " of 127.0.0.1 is taken (option --http-port): ";
  EXPECT_EQ(second.status().message().substr(0, wanted.size()), wanted);
  const auto nowhere = Listener::Listen({.name = "http", .address = "no.such.host.invalid"}, loops_.get());
  EXPECT_EQ(nowhere.status().code(), base::StatusCode::kInvalidArgument);
  const auto foreign = Listener::Listen({.name = "http", .address = "192.0.2.1"}, loops_.get());
  EXPECT_EQ(foreign.status().code(), base::StatusCode::kInvalidArgument) << foreign.status().ToString();
}

TEST_F(ListenerTest, SharedPortWithReusePort) {
  Listen({.name = "test", .reuse_port = true}, 0);
  const auto second =
      Listener::Listen({.name = "test", .port = listener_->port(), .reuse_port = true}, loops_.get());
  EXPECT_TRUE(second.ok()) << second.status().ToString();
}

TEST_F(ListenerTest, BeyondTheMaximumTheRefusalIsSentAndTheConnectionClosed) {
  Listen({.name = "test", .connections_max = 2, .refusal = "too many\n"}, 3);
  clients_.push_back(Connect(listener_->port()));
  clients_.push_back(Connect(listener_->port()));
  const int third = Connect(listener_->port());
  EXPECT_EQ(ReadAll(third), "too many\n");
  close(third);
  EXPECT_EQ(listener_->refused(), 1u);
  listener_->Release(loops_->at(0));
  clients_.push_back(Connect(listener_->port()));
  arrived_->wait();
  EXPECT_EQ(listener_->accepted(), 3u);
}

TEST_F(ListenerTest, WithoutDescriptorsItPausesAndGoesOnLater) {
  Listen({.name = "test"}, 1);
  rlimit old{};
  getrlimit(RLIMIT_NOFILE, &old);
  const int client = Connect(listener_->port());
  arrived_->wait();
  clients_.push_back(client);
  // A client socket that exists already, then no descriptor number is left for the accepted one.
  const int waiting = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  clients_.push_back(waiting);
  arrived_ = std::make_unique<std::latch>(1);
  const rlimit none{static_cast<rlim_t>(waiting), old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(listener_->port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(waiting, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  for (int i = 0; i < 5; ++i) loops_->RunOnAll([](EventLoop&) {});
  EXPECT_EQ(listener_->accepted(), 1u);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  arrived_->wait();
  EXPECT_EQ(listener_->accepted(), 2u);
}

TEST_F(ListenerTest, SpeaksIpv6) {
  if (Listener::Listen({.name = "test", .address = "::1"}, loops_.get()).status().code() ==
      base::StatusCode::kInvalidArgument) {
    GTEST_SKIP() << "this host has no IPv6";
  }
  Listen({.name = "test", .address = "::1"}, 1);
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  clients_.push_back(fd);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(listener_->port());
  address.sin6_addr = in6addr_loopback;
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  arrived_->wait();
  EXPECT_EQ(accepted_.With([](auto& list) { return list[0].peer; }).substr(0, 6), "[::1]:");
}

TEST_F(ListenerTest, AfterCloseNobodyIsAccepted) {
  Listen({.name = "test", .address = "localhost"}, 0);
  const uint16_t port = listener_->port();
  listener_->Close();
  listener_->Close();
  loops_->RunOnAll([](EventLoop&) {});
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_NE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(fd);
}

}  // namespace
}  // namespace stoker::net
