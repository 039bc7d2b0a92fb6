#include <cstdio>
#include <string>
#include <vector>

#include "serve_command.h"

namespace {

constexpr const char* kHelp =
    "stoker: keeps accelerators busy\n"
    "\n"
    "  stoker serve REPOSITORY | MODEL   serve models over HTTP and gRPC (stoker serve --help)\n"
    "  stoker --version\n";

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    std::fputs(kHelp, arguments.empty() ? stderr : stdout);
    return arguments.empty() ? 2 : 0;
  }
  if (arguments[0] == "--version") {
    std::puts("stoker " STOKER_VERSION);
    return 0;
  }
  if (arguments[0] == "serve") return stoker::apps::ServeCommand({arguments.begin() + 1, arguments.end()});
  std::fprintf(stderr, "stoker: unknown command '%s'; see stoker --help\n", arguments[0].c_str());
  return 2;
}
