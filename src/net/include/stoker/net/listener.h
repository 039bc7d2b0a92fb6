#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <stoker/base/status.h>
#include <stoker/net/event_loop.h>

namespace stoker::net {

struct ListenerOptions {
  std::string name = {};              // for messages
  std::string address = "127.0.0.1";  // IPv4, IPv6 or a host name
  uint16_t port = 0;                  // 0: any free one
  std::string port_option = {};       // named in the error when the port is taken
  bool reuse_port = false;
  size_t connections_max = 16384;
  std::string refusal = {};  // sent (if it fits) to a connection beyond connections_max before it is closed
};

/// A listening TCP socket. One loop accepts; each connection goes to the loop that has the fewest
/// of this listener. Without descriptors left it pauses instead of spinning. Thread-safe.
class Listener {
 public:
  /// Takes a non-blocking connection without Nagle delay and its peer ("127.0.0.1:4711"). Called on
  /// the thread of `loop`; owns `fd` from then on and calls Release once it has closed it.
  using OnConnection = std::function<void(EventLoop& loop, int fd, std::string peer)>;

  /// Binds and listens; kUnavailable names the option when the port is taken. `loops` must outlive it.
  static base::Result<std::unique_ptr<Listener>> Listen(ListenerOptions options, EventLoops* loops);
  /// CloseAndWait.
  ~Listener();

  /// Begins to accept; once. Until then connections wait in the kernel's queue.
  void Start(OnConnection on_connection);
  uint16_t port() const;
  /// Stops accepting, soon; returns at once. Connections stay.
  void Close();
  /// Closes and waits until no callback runs and none will. Not from a loop's thread.
  void CloseAndWait();
  /// A connection given to `loop` has been closed.
  void Release(const EventLoop& loop);
  size_t open_connections() const;
  uint64_t accepted() const;
  uint64_t refused() const;

 private:
  struct State;
  explicit Listener(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;  // shared with the callbacks that the loops hold
};

}  // namespace stoker::net
