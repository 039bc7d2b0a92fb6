// The HTTP server with a handler that answers at once: what the server itself costs.
// Usage: bench_http_null PORT [LOOPS] [inline|thread]; runs until it gets a signal.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <stoker/base/executor.h>
#include <stoker/net/http_server.h>

int main(int argc, char** argv) {
  using namespace stoker;
  const auto port = static_cast<uint16_t>(argc > 1 ? std::atoi(argv[1]) : 8000);
  const auto count = static_cast<size_t>(argc > 2 ? std::atoi(argv[2]) : 2);
  const bool hop = argc > 3 && std::string_view(argv[3]) == "thread";
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);

  auto loops = net::EventLoops::Start(count);
  if (!loops.ok()) {
    std::fprintf(stderr, "%s\n", loops.status().ToString().c_str());
    return 1;
  }
  base::Executor executor({.name = "answer", .threads = 1, .queue_limit = 65536});
  const base::Bytes body = base::Bytes::Static("ok\n");
  auto handler = [&](net::HttpRequest, net::HttpResponder responder) {
    net::HttpResponse response;
    response.content_type = "text/plain";
    response.body.push_back(body);
    if (!hop) {
      responder.Send(std::move(response));
      return;
    }
    auto shared = std::make_shared<net::HttpResponder>(std::move(responder));
    const base::Status queued =
        executor.Submit([shared, response]() mutable { shared->Send(std::move(response)); });
    if (!queued.ok()) shared->Send({.status = 503});
  };
  net::HttpServerOptions options;
  options.port = port;
  auto server = net::HttpServer::Listen(options, loops.value().get(), handler);
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    return 1;
  }
  int signal = 0;
  sigwait(&signals, &signal);
  return 0;
}
