#pragma once

#include <memory>

#include <stoker/net/http_message.h>
#include <stoker/net/http_server.h>
#include <stoker/serve/door.h>

namespace stoker::serve {

/// The KServe v2 protocol with Triton's extensions over HTTP: routes, JSON and binary tensors.
/// Thread-safe. Outlives the server whose handler it is.
class HttpDoor {
 public:
  HttpDoor(DoorContext context, DoorOptions options);
  ~HttpDoor();
  /// The handler for net::HttpServer. Never blocks.
  void Handle(net::HttpRequest request, net::HttpResponder responder);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// GET /metrics, in the format that the Accept header asks for.
class MetricsDoor {
 public:
  explicit MetricsDoor(DoorContext context) : context_(context) {}
  void Handle(net::HttpRequest request, net::HttpResponder responder);

 private:
  DoorContext context_;
};

}  // namespace stoker::serve
