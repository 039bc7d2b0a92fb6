#include "serve_command.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>

#include <stoker/base/clock.h>
#include <stoker/base/executor.h>
#include <stoker/base/str_cat.h>
#include <stoker/base/thread.h>
#include <stoker/device/cpu.h>
#include <stoker/device/gpu.h>
#include <stoker/net/event_loop.h>
#include <stoker/observe/metrics.h>
#include <stoker/serve/grpc_door.h>
#include <stoker/serve/http_door.h>

#include "banner.h"
#include "serve_options.h"
#include "shutdown_signals.h"

namespace stoker::apps {
namespace {

using base::StrCat;

constexpr int kExitFailed = 1;
constexpr int kExitArguments = 2;
constexpr int64_t kLookNs = 5 * base::kNsPerMs;
/// For the clients of requests that did not finish to take their refusals.
constexpr int64_t kRefusalNs = base::kNsPerSecond;

/// Everything a running server is made of, in the order in which it is made.
struct Server {
  Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Not simply in reverse: tasks of the pool use doors and host, and answers that the host still gives
  /// use the doors and ask the pool, which then refuses.
  ~Server() {
    grpc.reset();
    metrics_server.reset();
    http.reset();
    loops.reset();
    if (executor) executor->Shutdown();
    host.reset();
  }

  std::unique_ptr<observe::Log> log;
  std::unique_ptr<observe::Registry> metrics;
  std::unique_ptr<host::Host> host;
  std::unique_ptr<base::Executor> executor;
  std::unique_ptr<serve::HttpDoor> http_door;
  std::unique_ptr<serve::GrpcDoor> grpc_door;
  std::unique_ptr<serve::MetricsDoor> metrics_door;
  std::unique_ptr<net::EventLoops> loops;
  std::unique_ptr<net::HttpServer> http, metrics_server;
  std::unique_ptr<net::GrpcServer> grpc;
};

/// As many connections as the system lets us have.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

base::Status OpenDoors(const ServeOptions& options, Server* server) {
  const serve::DoorContext context{server->host.get(), server->executor.get(), &base::Clock::Real(),
                                   server->log.get(), server->metrics.get()};
  server->http_door = std::make_unique<serve::HttpDoor>(context, options.door);
  server->grpc_door = std::make_unique<serve::GrpcDoor>(context, options.door);
  server->metrics_door = std::make_unique<serve::MetricsDoor>(context);
  const size_t io_threads =
      static_cast<size_t>(options.io_threads > 0 ? options.io_threads : options.host.cores);
  STOKER_ASSIGN_OR_RETURN(server->loops, net::EventLoops::Start(io_threads));
  if (options.allow_http) {
    auto handle = [door = server->http_door.get()](net::HttpRequest request, net::HttpResponder responder) {
      door->Handle(std::move(request), std::move(responder));
    };
    STOKER_ASSIGN_OR_RETURN(server->http, net::HttpServer::Listen(options.http, server->loops.get(), handle));
  }
  if (options.allow_grpc) {
    auto dispatch = [door = server->grpc_door.get()](std::shared_ptr<net::GrpcCall> call) {
      return door->Dispatch(std::move(call));
    };
    STOKER_ASSIGN_OR_RETURN(server->grpc,
                            net::GrpcServer::Listen(options.grpc, server->loops.get(), dispatch));
  }
  if (options.allow_metrics) {
    auto handle = [door = server->metrics_door.get()](net::HttpRequest request,
                                                      net::HttpResponder responder) {
      door->Handle(std::move(request), std::move(responder));
    };
    STOKER_ASSIGN_OR_RETURN(server->metrics_server,
                            net::HttpServer::Listen(options.metrics, server->loops.get(), handle));
  }
  return base::OkStatus();
}

/// Everything but the models.
base::Status Open(const ServeOptions& options, Server* server) {
  STOKER_ASSIGN_OR_RETURN(server->log, observe::Log::Open(options.log));
  for (const auto& warning : options.warnings) server->log->Warning(warning);
  server->metrics = std::make_unique<observe::Registry>();
  host::Host::Dependencies dependencies;
  dependencies.clock = &base::Clock::Real();
  dependencies.metrics = server->metrics.get();
  dependencies.log = server->log.get();
  STOKER_ASSIGN_OR_RETURN(server->host, host::Host::Make(options.host, dependencies));
  base::ExecutorOptions pool;
  pool.name = "doors";
  pool.threads = static_cast<size_t>(options.host.cores);
  server->executor = std::make_unique<base::Executor>(pool);
  // Ports are bound before models load, so that a busy port is told at once; health and metadata
  // answer "not ready" meanwhile.
  return OpenDoors(options, server);
}

[[noreturn]] void EndAtOnce() {
  std::fputs("stoker serve: second signal, ending at once\n", stderr);
  _exit(kExitFailed);
}

/// Loads the models on a thread of its own, so that a signal is heard meanwhile.
class Loading {
 public:
  explicit Loading(host::Host* host)
      : thread_("serve/load", [this, host] {
          status_ = host->Start();
          ended_.store(true, std::memory_order_release);
        }) {}

  /// Waits for the end of loading; the signal that came before it, or 0.
  int WaitForEndOrSignal(ShutdownSignals* signals) {
    while (!ended_.load(std::memory_order_acquire)) {
      if (const int signal = signals->Wait(kLookNs); signal != 0) return signal;
    }
    thread_.Join();
    return 0;
  }
  const base::Status& status() const { return status_; }

 private:
  std::atomic<bool> ended_{false};
  base::Status status_;
  base::Thread thread_;
};

size_t OpenConnections(const Server& server) {
  size_t count = 0;
  if (server.http) count += server.http->open_connections();
  if (server.grpc) count += server.grpc->open_connections();
  return count;
}

/// Readiness drops, connections close after their answers, running requests get `exit_timeout_s`. A second
/// signal ends the process. False when requests were still running.
bool ShutDown(const ServeOptions& options, int signal, ShutdownSignals* signals, Server* server) {
  server->log->Info("shutting down",
                    {{"signal", int64_t{signal}}, {"exit_timeout_s", options.exit_timeout_s}});
  base::Clock& clock = base::Clock::Real();
  int64_t deadline = clock.NowNs() + options.exit_timeout_s * base::kNsPerSecond;
  server->host->BeginShutdown();
  if (server->http) server->http->Drain();
  if (server->grpc) server->grpc->Drain();
  std::atomic<bool> drained{false};
  bool clean = true;
  base::Thread drainer("serve/drain", [&] {
    const base::Status status = server->host->Drain(deadline);
    if (!status.ok()) server->log->Warning(status.message());
    clean = status.ok();
    drained.store(true, std::memory_order_release);
  });
  while (!drained.load(std::memory_order_acquire)) {
    if (signals->Wait(kLookNs) != 0) EndAtOnce();
  }
  drainer.Join();
  if (!clean) deadline = clock.NowNs() + kRefusalNs;
  while (OpenConnections(*server) > 0 && clock.NowNs() < deadline) {
    if (signals->Wait(kLookNs) != 0) EndAtOnce();
  }
  return clean;
}

Machine DescribeMachine(const ServeOptions& options) {
  Machine machine;
  machine.cores = options.host.cores;
  const device::CpuGrant grant = device::GrantedCpu();
  const auto tenths = grant.memory_bytes * 10 / (uint64_t{1} << 30);
  machine.memory = StrCat(tenths / 10, ".", tenths % 10, " GiB");
  machine.gpu = device::SeenGpu();
  return machine;
}

}  // namespace

int ServeCommand(const std::vector<std::string>& arguments) {
  auto options = ParseServeOptions(arguments);
  if (!options.ok()) {
    std::fprintf(stderr, "stoker serve: %s\n", options.status().message().c_str());
    return kExitArguments;
  }
  if (options->help) {
    std::fputs(ServeHelp().c_str(), stdout);
    return 0;
  }
  options->door.server_version = STOKER_VERSION;
  ShutdownSignals signals;
  RaiseFileLimit();
  if (options->host.cores == 0) options->host.cores = device::GrantedCpu().cores;
  Server server;
  if (const base::Status opened = Open(*options, &server); !opened.ok()) {
    std::fprintf(stderr, "stoker serve: %s\n", opened.message().c_str());
    return kExitFailed;
  }
  auto loading = std::make_unique<Loading>(server.host.get());
  if (const int signal = loading->WaitForEndOrSignal(&signals); signal != 0) {
    ShutDown(*options, signal, &signals, &server);
    _exit(0);  // a load cannot be taken back, and may take long
  }
  if (!loading->status().ok()) {
    std::fprintf(stderr, "stoker serve: %s\n", loading->status().message().c_str());
    return kExitFailed;
  }
  const Ports ports{server.http ? server.http->port() : uint16_t{0},
                    server.grpc ? server.grpc->port() : uint16_t{0},
                    server.metrics_server ? server.metrics_server->port() : uint16_t{0}};
  std::fputs(Banner(*options, *server.host, DescribeMachine(*options), ports).c_str(), stdout);
  std::fflush(stdout);

  const int signal = signals.Wait(-1);
  const bool clean = ShutDown(*options, signal, &signals, &server);
  if (!clean) _exit(0);  // their engines still run: nothing can be taken apart under them
  signals.Release();
  return 0;
}

}  // namespace stoker::apps
