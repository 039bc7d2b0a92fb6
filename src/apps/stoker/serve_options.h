#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <stoker/base/status.h>
#include <stoker/host/host.h>
#include <stoker/net/grpc_server.h>
#include <stoker/net/http_server.h>
#include <stoker/observe/log.h>
#include <stoker/serve/door.h>

namespace stoker::apps {

/// Everything that `stoker serve` was told: plain values, nothing opened yet.
struct ServeOptions {
  host::HostOptions host;
  serve::DoorOptions door;
  net::HttpServerOptions http;
  net::GrpcServerOptions grpc;
  net::HttpServerOptions metrics;
  observe::LogSettings log;
  bool allow_http = true;
  bool allow_grpc = true;
  bool allow_metrics = true;
  int64_t exit_timeout_s = 30;
  int io_threads = 0;                 // 0: as many as there are cores
  std::vector<std::string> warnings;  // options that have no effect here, one line each
  bool help = false;
};

/// What an option does here.
enum class OptionClass : uint8_t { kHonoured, kNoEffect, kRefused };

/// Reads the arguments after `stoker serve`. Triton's names, `--name value` or `--name=value`; the short
/// form `stoker serve REPO` or `stoker serve model.onnx` binds 127.0.0.1 unless an address is given.
/// Unknown options, missing or bad values and refused options are kInvalidArgument and say what to do.
base::Result<ServeOptions> ParseServeOptions(const std::vector<std::string>& arguments);

/// The help text; lists every option under its class.
std::string ServeHelp();

}  // namespace stoker::apps
