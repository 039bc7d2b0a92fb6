#include "banner.h"

#include <algorithm>
#include <array>

#include <stoker/base/str_cat.h>

namespace stoker::apps {
namespace {

using base::StrCat;

constexpr size_t kColumns = 6;
using Row = std::array<std::string, kColumns>;

std::string Table(const std::vector<Row>& rows) {
  std::array<size_t, kColumns> widths{};
  for (const auto& row : rows) {
    for (size_t c = 0; c < kColumns; ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out;
  for (const auto& row : rows) {
    out += "  ";
    for (size_t c = 0; c < kColumns; ++c) {
      out += row[c];
      if (c + 1 < kColumns) out.append(widths[c] - row[c].size() + 2, ' ');
    }
    while (out.back() == ' ') out.pop_back();
    out += '\n';
  }
  return out;
}

std::string Where(const ServeOptions& options) {
  std::string out = options.host.single_model_file;
  for (const auto& repository : options.host.repositories)
    base::StrAppend(&out, out.empty() ? "" : ", ", repository);
  return out;
}

std::string_view ModeName(host::ControlMode mode) {
  if (mode == host::ControlMode::kPoll) return "poll";
  return mode == host::ControlMode::kExplicit ? "explicit" : "none";
}

}  // namespace

std::string Banner(const ServeOptions& options, const host::Host& host, const Machine& machine,
                   const Ports& ports) {
  const auto models = host.Summaries();
  std::string out = StrCat("stoker ", options.door.server_version, " serves ", models.size(),
                           models.size() == 1 ? " model" : " models", " from ", Where(options),
                           " (model control: ", ModeName(options.host.control_mode), ")\n");
  base::StrAppend(&out, "  on       ", machine.cores, machine.cores == 1 ? " core, " : " cores, ",
                  machine.memory, " of memory",
                  machine.gpu.empty() ? "; no GPU seen" : StrCat("; ", machine.gpu, " seen, not used"), "\n");
  if (options.allow_http)
    base::StrAppend(&out, "  HTTP     http://", options.http.address, ":", ports.http, "\n");
  if (options.allow_grpc) base::StrAppend(&out, "  gRPC     ", options.grpc.address, ":", ports.grpc, "\n");
  if (options.allow_metrics)
    base::StrAppend(&out, "  metrics  http://", options.metrics.address, ":", ports.metrics, "/metrics\n");
  if (models.empty()) return out;
  std::vector<Row> rows = {{"model", "version", "engine", "instances", "batching", "chosen"}};
  for (const auto& model : models) {
    rows.push_back(
        {model.name, StrCat(model.version), model.engine, model.instances, model.batching, model.choices});
  }
  return out + Table(rows);
}

}  // namespace stoker::apps
