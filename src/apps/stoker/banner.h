#pragma once

#include <string>

#include <stoker/host/host.h>

#include "serve_options.h"

namespace stoker::apps {

struct Machine {
  int cores = 1;
  std::string memory;  // "23.4 GiB"
  std::string gpu;     // a GPU that is seen and not used, or empty
};

struct Ports {
  uint16_t http = 0, grpc = 0, metrics = 0;
};

/// What is served, on what, at which addresses, with which batching.
std::string Banner(const ServeOptions& options, const host::Host& host, const Machine& machine,
                   const Ports& ports);

}  // namespace stoker::apps
