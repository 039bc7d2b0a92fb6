// The floor: threads that each wait on an epoll set, read until a request of known size is there
// and write an answer made beforehand. No parsing, no error handling worth the name.
// Usage: bench_echo_epoll PORT [THREADS [BODY_BYTES]]; runs until it is killed.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr std::string_view kAnswer =
    "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: text/plain\r\nContent-Length: "
    "3\r\n\r\nok\n";

// Takes whole requests from the front of what `fd` has sent; false when it has closed.
bool Serve(int fd, size_t body_bytes, std::string* pending) {
  char buffer[65536];
  const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
  if (got <= 0) return got < 0 && errno == EAGAIN;
  std::string_view data(buffer, static_cast<size_t>(got));
  if (!pending->empty()) {
    pending->append(data);
    data = *pending;
  }
  std::string out;
  for (;;) {
    const size_t end = data.find("\r\n\r\n");
    if (end == std::string_view::npos || data.size() < end + 4 + body_bytes) break;
    data.remove_prefix(end + 4 + body_bytes);
    out.append(kAnswer);
  }
  std::string rest(data);
  pending->swap(rest);
  return out.empty() || send(fd, out.data(), out.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(out.size());
}

void RunThread(int epoll_fd, size_t body_bytes) {
  std::vector<std::string> pending(65536);
  epoll_event events[256];
  for (;;) {
    const int count = epoll_wait(epoll_fd, events, 256, -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (Serve(fd, body_bytes, &pending[static_cast<size_t>(fd)])) continue;
      pending[static_cast<size_t>(fd)].clear();
      close(fd);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto port = static_cast<uint16_t>(argc > 1 ? std::atoi(argv[1]) : 8000);
  const auto threads = static_cast<size_t>(argc > 2 ? std::atoi(argv[2]) : 2);
  const auto body_bytes = static_cast<size_t>(argc > 3 ? std::atoi(argv[3]) : 128);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener, 1024) != 0) {
    std::perror("listen");
    return 1;
  }
  std::vector<int> sets;
  for (size_t i = 0; i < threads; ++i) {
    sets.push_back(epoll_create1(0));
    std::thread(RunThread, sets.back(), body_bytes).detach();
  }
  for (size_t next = 0;; ++next) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
    if (fd < 0) continue;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    epoll_ctl(sets[next % threads], EPOLL_CTL_ADD, fd, &event);
  }
}
