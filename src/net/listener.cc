#include <stoker/net/listener.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include <stoker/base/clock.h>
#include <stoker/base/str_cat.h>

namespace stoker::net {
namespace {

constexpr int kBacklog = 4096;
constexpr int kAcceptsPerRound = 64;
constexpr int64_t kPauseNs = 100 * base::kNsPerMs;

std::string PeerText(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    return base::StrCat("[", static_cast<const char*>(text), "]:", ntohs(v6.sin6_port));
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
  inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
  return base::StrCat(static_cast<const char*>(text), ":", ntohs(v4.sin_port));
}

base::Status BindError(const ListenerOptions& options, int error) {
  const std::string where = base::StrCat("port ", options.port, " of ", options.address);
  const std::string option = base::StrCat("(option ", options.port_option, ")");
  if (error == EADDRINUSE) {
    return base::Unavailable(base::StrCat(where, " is taken ", option,
                                          ": another process listens there; stop it or choose another port"));
  }
  if (error == EACCES) {
    return base::PermissionDenied(
        base::StrCat(where, " may not be used ", option,
                     ": ports below 1024 need the right to bind them; choose a higher one"));
  }
  if (error == EADDRNOTAVAIL) {
    return base::InvalidArgument(
        base::StrCat(where, " cannot be bound ", option, ": no interface of this host has that address"));
  }
  return base::Unavailable(base::StrCat(where, " cannot be bound ", option, ": ", std::strerror(error)));
}

// Binds and listens on one resolved address; a descriptor, or -errno.
int BindOne(const addrinfo& address, bool reuse_port) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  const int on = 1;
  const int off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // accepted sockets inherit it
  if (reuse_port) setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
  if (address.ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (bind(fd, address.ai_addr, address.ai_addrlen) == 0 && listen(fd, kBacklog) == 0) return fd;
  const int error = errno;
  close(fd);
  return -error;
}

base::Result<int> Bind(const ListenerOptions& options) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(options.address.c_str(), std::to_string(options.port).c_str(), &hints, &found);
  if (error != 0) {
    return base::InvalidArgument(base::StrCat(
        "address ", base::Quoted(options.address), " for the ", options.name,
        " server cannot be resolved: ", gai_strerror(error), "; give an IP address or a host name"));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  int result = -EADDRNOTAVAIL;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    result = BindOne(*address, options.reuse_port);
    if (result >= 0) return result;
    if (result == -EADDRINUSE) break;
  }
  return BindError(options, -result);
}

uint16_t BoundPort(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

}  // namespace

struct Listener::State : std::enable_shared_from_this<Listener::State> {
  ListenerOptions options;
  EventLoops* loops = nullptr;
  OnConnection on_connection;
  uint16_t port = 0;
  std::unique_ptr<std::atomic<int64_t>[]> open_by_loop;
  std::atomic<int64_t> open{0};
  std::atomic<uint64_t> accepted{0};
  std::atomic<uint64_t> refused{0};

  // Below: the accepting loop's thread only.
  int fd = -1;
  size_t next = 0;
  EventLoop::TimerId pause = 0;

  EventLoop& loop() { return loops->at(0); }
  void Accept();
  void WatchFor(uint32_t events) {
    CHECK(loop().Modify(fd, events).ok());
  }  // fails for a foreign descriptor only
  void Pause();
  void Refuse(int connection);
  void HandOver(int connection, std::string peer);
  void CloseSocket();
};

void Listener::State::Accept() {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    const int connection =
        accept4(fd, reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (connection < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) Pause();
      return;
    }
    if (open.load(std::memory_order_relaxed) >= static_cast<int64_t>(options.connections_max)) {
      Refuse(connection);
      continue;
    }
    accepted.fetch_add(1, std::memory_order_relaxed);
    HandOver(connection, PeerText(address));
  }
}

// The kernel keeps reporting the socket as ready while no descriptor is left to accept with.
void Listener::State::Pause() {
  WatchFor(0);
  pause = loop().After(kPauseNs, [self = shared_from_this()] {
    self->pause = 0;
    if (self->fd >= 0) self->WatchFor(EPOLLIN);
  });
}

void Listener::State::Refuse(int connection) {
  refused.fetch_add(1, std::memory_order_relaxed);
  if (!options.refusal.empty()) {
    [[maybe_unused]] const ssize_t sent =
        send(connection, options.refusal.data(), options.refusal.size(), MSG_NOSIGNAL);
    shutdown(connection, SHUT_WR);
  }
  close(connection);
}

void Listener::State::HandOver(int connection, std::string peer) {
  size_t best = next % loops->size();
  for (size_t i = 1; i < loops->size(); ++i) {
    const size_t candidate = (next + i) % loops->size();
    if (open_by_loop[candidate] < open_by_loop[best]) best = candidate;
  }
  next = best + 1;
  open_by_loop[best].fetch_add(1, std::memory_order_relaxed);
  open.fetch_add(1, std::memory_order_relaxed);
  EventLoop& target = loops->at(best);
  if (&target == &loop()) {
    on_connection(target, connection, std::move(peer));
    return;
  }
  target.Post([self = shared_from_this(), &target, connection, peer = std::move(peer)]() mutable {
    self->on_connection(target, connection, std::move(peer));
  });
}

void Listener::State::CloseSocket() {
  if (fd < 0) return;
  if (pause != 0) loop().CancelTimer(std::exchange(pause, 0));
  loop().Remove(fd);
  close(std::exchange(fd, -1));
}

base::Result<std::unique_ptr<Listener>> Listener::Listen(ListenerOptions options, EventLoops* loops) {
  STOKER_ASSIGN_OR_RETURN(const int fd, Bind(options));
  auto state = std::make_shared<State>();
  state->options = std::move(options);
  state->loops = loops;
  state->open_by_loop = std::make_unique<std::atomic<int64_t>[]>(loops->size());
  state->port = BoundPort(fd);
  state->fd = fd;
  return std::unique_ptr<Listener>(new Listener(std::move(state)));
}

Listener::Listener(std::shared_ptr<State> state) : state_(std::move(state)) {}

Listener::~Listener() { CloseAndWait(); }

void Listener::Start(OnConnection on_connection) {
  state_->loop().Post([state = state_, on_connection = std::move(on_connection)]() mutable {
    state->on_connection = std::move(on_connection);
    if (state->fd < 0) return;
    // Cannot fail but for want of kernel memory; then nothing is accepted and the socket is closed.
    const auto accept = [state = state.get()](uint32_t) { state->Accept(); };
    if (!state->loop().Add(state->fd, EPOLLIN, accept).ok()) state->CloseSocket();
  });
}

void Listener::CloseAndWait() {
  State* state = state_.get();
  state->loops->RunOnAll([state](EventLoop& loop) {
    if (&loop == &state->loop()) state->CloseSocket();
  });
  // Once more: connections that the accepting loop had handed over are taken before this returns.
  state->loops->RunOnAll([](EventLoop&) {});
}

uint16_t Listener::port() const { return state_->port; }

void Listener::Close() {
  state_->loop().Post([state = state_] { state->CloseSocket(); });
}

void Listener::Release(const EventLoop& loop) {
  state_->open_by_loop[static_cast<size_t>(loop.index())].fetch_sub(1, std::memory_order_relaxed);
  state_->open.fetch_sub(1, std::memory_order_relaxed);
}

size_t Listener::open_connections() const {
  return static_cast<size_t>(state_->open.load(std::memory_order_relaxed));
}
uint64_t Listener::accepted() const { return state_->accepted.load(std::memory_order_relaxed); }
uint64_t Listener::refused() const { return state_->refused.load(std::memory_order_relaxed); }

}  // namespace stoker::net
