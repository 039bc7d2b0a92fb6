// A gRPC server that does nothing but answer: the far end for measurements of the gRPC layer alone
// and for its black-box test with foreign clients. Messages are bytes, echoed as they are.
//   /stoker.Null/Echo      one answer per message, the call ends with the client's half-close
//   /stoker.Null/Hop       the same from another thread
//   /stoker.Null/Silent    never answers
//   /stoker.Null/Metadata  echoes, and returns the call's metadata x-… as trailers
//   /stoker.Null/Fail      ends with the code and text of the message: "5 no such thing"
// SIGTERM drains: calls end, connections close, then the process does.
#include <signal.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <stoker/base/executor.h>
#include <stoker/base/mutex.h>
#include <stoker/net/event_loop.h>
#include <stoker/net/grpc_server.h>

namespace stoker::net {
namespace {

class EchoHandler final : public GrpcMethodHandler {
 public:
  EchoHandler(std::shared_ptr<GrpcCall> call, bool return_metadata)
      : call_(std::move(call)), return_metadata_(return_metadata) {}
  void OnMessage(base::Bytes message) override { call_->Write({std::move(message)}); }
  void OnHalfClose() override {
    GrpcMetadata trailers;
    if (return_metadata_) {
      for (const auto& field : call_->metadata()) {
        if (field.first.starts_with("x-")) trailers.push_back(field);
      }
    }
    call_->Finish(base::OkStatus(), std::move(trailers));
  }
  void OnCancel() override {}

 private:
  const std::shared_ptr<GrpcCall> call_;
  const bool return_metadata_;
};

class HopHandler final : public GrpcMethodHandler {
 public:
  HopHandler(std::shared_ptr<GrpcCall> call, base::Executor* executor)
      : call_(std::move(call)), executor_(executor) {}
  void OnMessage(base::Bytes message) override {
    Submit([call = call_, message = std::move(message)] { call->Write({message}); });
  }
  void OnHalfClose() override {
    Submit([call = call_] { call->Finish(base::OkStatus()); });
  }
  void OnCancel() override {}

 private:
  void Submit(std::function<void()> task) {
    const base::Status status = executor_->Submit(std::move(task));
    if (!status.ok()) call_->Finish(status);
  }
  const std::shared_ptr<GrpcCall> call_;
  base::Executor* const executor_;
};

class SilentHandler final : public GrpcMethodHandler {
 public:
  void OnMessage(base::Bytes) override {}
  void OnHalfClose() override {}
  void OnCancel() override { std::fputs("cancelled\n", stderr); }
};

class FailHandler final : public GrpcMethodHandler {
 public:
  explicit FailHandler(std::shared_ptr<GrpcCall> call) : call_(std::move(call)) {}
  void OnMessage(base::Bytes message) override {
    const std::string_view text = message.text();
    unsigned code = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), code);
    const auto skip = static_cast<size_t>(parsed.ptr - text.data());
    call_->Finish(
        {static_cast<base::StatusCode>(code), std::string(text.substr(std::min(skip + 1, text.size())))});
  }
  void OnHalfClose() override {}
  void OnCancel() override {}

 private:
  const std::shared_ptr<GrpcCall> call_;
};

GrpcDispatcher MakeDispatcher(base::Executor* executor) {
  return [executor](std::shared_ptr<GrpcCall> call) -> std::unique_ptr<GrpcMethodHandler> {
    const std::string_view path = call->path();
    if (path == "/stoker.Null/Echo") return std::make_unique<EchoHandler>(std::move(call), false);
    if (path == "/stoker.Null/Hop") return std::make_unique<HopHandler>(std::move(call), executor);
    if (path == "/stoker.Null/Silent") return std::make_unique<SilentHandler>();
    if (path == "/stoker.Null/Metadata") return std::make_unique<EchoHandler>(std::move(call), true);
    if (path == "/stoker.Null/Fail") return std::make_unique<FailHandler>(std::move(call));
    return nullptr;
  };
}

int Main(int argc, char** argv) {
  std::map<std::string_view, size_t> flags{
      {"--port", 0}, {"--loops", 1}, {"--gzip", 0}, {"--message-bytes-max", 64 << 20}};
  for (int i = 1; i < argc; i += 2) {
    const auto flag = flags.find(argv[i]);
    if (flag == flags.end() || i + 1 == argc) {
      std::fprintf(stderr, "usage: %s [--port N] [--loops N] [--gzip 0|1] [--message-bytes-max N]\n",
                   argv[0]);
      return 2;
    }
    flag->second = std::strtoull(argv[i + 1], nullptr, 10);
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  base::Executor executor({.name = "hop", .threads = 1});
  auto loops = EventLoops::Start(flags["--loops"]);
  if (!loops.ok()) {
    std::fprintf(stderr, "%s\n", loops.status().ToString().c_str());
    return 1;
  }
  auto server = GrpcServer::Listen({.port = static_cast<uint16_t>(flags["--port"]),
                                    .port_option = "--port",
                                    .message_bytes_max = flags["--message-bytes-max"],
                                    .gzip_responses = flags["--gzip"] != 0},
                                   loops->get(), MakeDispatcher(&executor));
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    return 1;
  }
  std::printf("listening on port %u\n", static_cast<unsigned>((*server)->port()));
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  (*server)->Drain();
  // A second signal ends the wait at once.
  const timespec pause{.tv_sec = 0, .tv_nsec = 20'000'000};
  for (int i = 0; i < 500 && (*server)->open_connections() > 0 && sigtimedwait(&signals, nullptr, &pause) < 0;
       ++i) {
  }
  executor.Shutdown();
  return 0;
}

}  // namespace
}  // namespace stoker::net

int main(int argc, char** argv) { return stoker::net::Main(argc, argv); }
