#include "option_table.h"

#include <array>
#include <vector>

#include <stoker/base/clock.h>
#include <stoker/base/str_cat.h>

#include "option_values.h"

namespace stoker::apps {
namespace {

using base::Status;
using base::StrCat;
using Apply = std::function<Status(const std::string&, ServeOptions*)>;

constexpr int64_t kMany = int64_t{1} << 40;

/// Setters for the common kinds of value; `field` picks the place in the options.
template <typename Field>
Apply Bool(Field field) {
  return [field](const std::string& text, ServeOptions* options) { return ReadBool(text, &field(*options)); };
}

template <typename Field>
Apply Number(int64_t least, int64_t most, Field field) {
  return [=](const std::string& text, ServeOptions* options) {
    int64_t value = 0;
    STOKER_RETURN_IF_ERROR(ReadInteger(text, least, most, &value));
    auto& place = field(*options);
    place = static_cast<std::remove_reference_t<decltype(place)>>(value);
    return base::OkStatus();
  };
}

template <typename Field>
Apply Scaled(int64_t least, int64_t most, int64_t unit_ns, Field field) {
  return [=](const std::string& text, ServeOptions* options) {
    int64_t value = 0;
    STOKER_RETURN_IF_ERROR(ReadInteger(text, least, most, &value));
    field(*options) = value * unit_ns;
    return base::OkStatus();
  };
}

template <typename Field>
Apply Text(Field field) {
  return [field](const std::string& text, ServeOptions* options) {
    field(*options) = text;
    return base::OkStatus();
  };
}

/// Accepts anything: for options without effect here.
Status Ignore(const std::string& /*value*/, ServeOptions* /*options*/) { return base::OkStatus(); }

/// Refused, but for the value that asks for nothing.
Apply OnlyHarmless(std::string_view harmless) {
  return [harmless](const std::string& text, ServeOptions*) {
    bool flag = true;
    const bool off = !harmless.empty() &&
                     (text == harmless || (harmless == "false" && ReadBool(text, &flag).ok() && !flag));
    if (off) return base::OkStatus();
    return base::Unimplemented(
        "is not supported by this server yet, and leaving it out changes what clients may do or get");
  };
}

Status SetControlMode(const std::string& text, ServeOptions* options) {
  if (text == "none") {
    options->host.control_mode = host::ControlMode::kNone;
  } else if (text == "poll") {
    options->host.control_mode = host::ControlMode::kPoll;
  } else if (text == "explicit") {
    options->host.control_mode = host::ControlMode::kExplicit;
  } else {
    return base::InvalidArgument(StrCat("wants none, poll or explicit, got ", base::Quoted(text)));
  }
  return base::OkStatus();
}

Status SetLogFormat(const std::string& text, ServeOptions* options) {
  if (text == "default") {
    options->log.format = observe::LogFormat::kDefault;
  } else if (text == "ISO8601") {
    options->log.format = observe::LogFormat::kIso8601;
  } else if (text == "json") {
    options->log.format = observe::LogFormat::kJson;
  } else {
    return base::InvalidArgument(StrCat("wants default, ISO8601 or json, got ", base::Quoted(text)));
  }
  return base::OkStatus();
}

/// <backend>,<key>=<value>, or <key>=<value> for all.
Status SetBackendConfig(const std::string& text, ServeOptions* options) {
  const size_t comma = text.find(',');
  const std::string backend = comma == std::string::npos ? "" : text.substr(0, comma);
  const std::string setting = comma == std::string::npos ? text : text.substr(comma + 1);
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    return base::InvalidArgument(
        StrCat("wants <backend>,<key>=<value> or <key>=<value>, got ", base::Quoted(text)));
  }
  options->host.backend_config[backend][setting.substr(0, equals)] = setting.substr(equals + 1);
  return base::OkStatus();
}

Status SetCompression(const std::string& text, ServeOptions* options) {
  if (text != "none" && text != "low" && text != "medium" && text != "high") {
    return base::InvalidArgument(StrCat("wants none, low, medium or high, got ", base::Quoted(text)));
  }
  options->grpc.gzip_responses = text != "none";
  return base::OkStatus();
}

/// <setting>=<value>. Quantiles of summaries have no effect without the summaries.
Status SetMetricsConfig(const std::string& text, ServeOptions* options) {
  const size_t equals = text.find('=');
  const std::string setting = text.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (setting == "counter_latencies") return ReadBool(value, &options->host.latency_counters);
  if (setting == "summary_latencies" || setting == "histogram_latencies") {
    bool wanted = false;
    STOKER_RETURN_IF_ERROR(ReadBool(value, &wanted));
    if (!wanted) return base::OkStatus();
    return base::Unimplemented(
        StrCat("cannot turn on ", setting,
               ": these families are not there yet; the histograms stoker_*_seconds are, without an option"));
  }
  if (setting == "summary_quantiles") {
    options->warnings.push_back("option --metrics-config: summary_quantiles has no effect here");
    return base::OkStatus();
  }
  return base::InvalidArgument(
      StrCat("wants counter_latencies=<bool>, summary_latencies=false or histogram_latencies=false, got ",
             base::Quoted(text)));
}

Status SetStrictModelConfig(const std::string& text, ServeOptions* options) {
  return ReadBool(text, &options->host.disable_auto_complete);
}

void AddGeneral(std::vector<OptionRow>* rows) {
  const auto honoured = OptionClass::kHonoured;
  const auto repository = [](const std::string& text, ServeOptions* o) {
    o->host.repositories.push_back(text);
    return base::OkStatus();
  };
  const auto load = [](const std::string& text, ServeOptions* o) {
    o->host.startup_models.push_back(text);
    return base::OkStatus();
  };
  rows->insert(
      rows->end(),
      {
          {"model-repository", "FOLDER", "a folder of models; may be given several times", honoured,
           repository},
          {"model-store", "FOLDER", "the same", honoured, repository},
          {"model-control-mode", "MODE",
           "none: load all at the start; poll: follow the folders; explicit: load on request [none]",
           honoured, SetControlMode},
          {"load-model", "NAME",
           "with explicit: load this at the start; * for all; may be given several times", honoured, load},
          {"repository-poll-secs", "N", "with poll: seconds between looks [15]", honoured,
           Scaled(
               1, 1'000'000, base::kNsPerSecond,
               [](ServeOptions & o) -> auto& { return o.host.poll_interval_ns; })},
          {"model-config-name", "NAME", "use configs/NAME.pbtxt of a model where there is one", honoured,
           Text([](ServeOptions & o) -> auto& { return o.host.config_name; })},
          {"disable-auto-complete-config", "", "configurations must be complete", honoured,
           [](const std::string&, ServeOptions* o) {
             o->host.disable_auto_complete = true;
             return base::OkStatus();
           }},
          {"strict-model-config", "BOOL", "the older name of the same", honoured, SetStrictModelConfig},
          {"exit-on-error", "BOOL", "end when a model cannot be loaded at the start [true]", honoured,
           Bool([](ServeOptions & o) -> auto& { return o.host.exit_on_error; })},
          {"strict-readiness", "BOOL", "ready only when every model is [true]", honoured,
           Bool([](ServeOptions & o) -> auto& { return o.host.strict_readiness; })},
          {"model-load-thread-count", "N", "models loaded at the same time [4]", honoured,
           Number(
               1, 256, [](ServeOptions & o) -> auto& { return o.host.load_threads; })},
          {"backend-config", "[BACKEND,]KEY=VALUE",
           "settings of engines; default-max-batch-size is known for all", honoured, SetBackendConfig},
          {"id", "NAME", "name of the server in its metadata [triton]", honoured,
           Text([](ServeOptions & o) -> auto& { return o.door.server_id; })},
          {"exit-timeout-secs", "N", "how long running requests may take after SIGTERM [30]", honoured,
           Number(
               0, 1'000'000, [](ServeOptions & o) -> auto& { return o.exit_timeout_s; })},
          {"cores", "N", "cores to plan for [as granted]", honoured,
           Number(
               1, 4096, [](ServeOptions & o) -> auto& { return o.host.cores; })},
          {"io-threads", "N", "threads that serve connections [one a core]", honoured,
           Number(
               1, 1024, [](ServeOptions & o) -> auto& { return o.io_threads; })},
          {"max-queue-size", "N", "requests that may wait for one model [100000]", honoured,
           Number(
               1, kMany, [](ServeOptions & o) -> auto& { return o.host.queue_rows_max; })},
          {"max-output-size", "BYTES", "outputs of one run [4 GiB]", honoured,
           Number(
               1, kMany, [](ServeOptions & o) -> auto& { return o.host.output_bytes_max; })},
      });
}

void AddHttp(std::vector<OptionRow>* rows) {
  const auto honoured = OptionClass::kHonoured;
  const auto input_size = [](const std::string& text, ServeOptions* o) {
    int64_t bytes = 0;
    STOKER_RETURN_IF_ERROR(ReadInteger(text, 1, kMany, &bytes));
    o->http.body_bytes_max = static_cast<size_t>(bytes);
    o->door.input_bytes_max = static_cast<size_t>(bytes);
    return base::OkStatus();
  };
  rows->insert(
      rows->end(),
      {
          {"allow-http", "BOOL", "serve HTTP [true]", honoured,
           Bool([](ServeOptions & o) -> auto& { return o.allow_http; })},
          {"http-port", "PORT", "[8000]", honoured,
           Number(
               0, 65535, [](ServeOptions & o) -> auto& { return o.http.port; })},
          {"http-address", "ADDRESS", "[0.0.0.0; 127.0.0.1 in the short form]", honoured,
           Text([](ServeOptions & o) -> auto& { return o.http.address; })},
          {"reuse-http-port", "BOOL", "share the port with other processes [false]", honoured,
           Bool([](ServeOptions & o) -> auto& { return o.http.reuse_port; })},
          {"http-max-input-size", "BYTES", "body of a request, packed and unpacked [64 MiB]", honoured,
           input_size},
          {"http-max-header-size", "BYTES", "header of a request [64 KiB]", honoured,
           Number(
               256, 1 << 30, [](ServeOptions & o) -> auto& { return o.http.header_bytes_max; })},
          {"http-max-chunks", "N", "chunks of a chunked body [65536]", honoured,
           Number(
               1, kMany, [](ServeOptions & o) -> auto& { return o.http.chunk_count_max; })},
          {"http-max-connections", "N", "open connections [16384]", honoured,
           Number(
               1, 1'000'000, [](ServeOptions & o) -> auto& { return o.http.connections_max; })},
          {"http-idle-timeout-secs", "N", "until a connection without a request is closed [300]", honoured,
           Scaled(
               1, 1'000'000, base::kNsPerSecond,
               [](ServeOptions & o) -> auto& { return o.http.idle_timeout_ns; })},
          {"json-max-depth", "N", "nesting of JSON [100]", honoured,
           Number(
               1, 10'000, [](ServeOptions & o) -> auto& { return o.door.json_depth_max; })},
          {"max-tensors", "N", "inputs or outputs of one request [1024]", honoured,
           Number(
               1, 1'000'000, [](ServeOptions & o) -> auto& { return o.door.tensors_max; })},
          {"access-log", "BOOL", "log a line for each HTTP request [false]", honoured,
           Bool([](ServeOptions & o) -> auto& { return o.door.access_log; })},
      });
}

void AddGrpc(std::vector<OptionRow>* rows) {
  const auto honoured = OptionClass::kHonoured;
  rows->insert(rows->end(),
               {
                   {"allow-grpc", "BOOL", "serve gRPC [true]", honoured,
                    Bool([](ServeOptions & o) -> auto& { return o.allow_grpc; })},
                   {"grpc-port", "PORT", "[8001]", honoured,
                    Number(
                        0, 65535, [](ServeOptions & o) -> auto& { return o.grpc.port; })},
                   {"grpc-address", "ADDRESS", "[0.0.0.0; 127.0.0.1 in the short form]", honoured,
                    Text([](ServeOptions & o) -> auto& { return o.grpc.address; })},
                   {"reuse-grpc-port", "BOOL", "share the port with other processes [false]", honoured,
                    Bool([](ServeOptions & o) -> auto& { return o.grpc.reuse_port; })},
                   {"grpc-max-message-size", "BYTES", "one message of a client [2147483647]", honoured,
                    Number(
                        1, INT32_MAX, [](ServeOptions & o) -> auto& { return o.grpc.message_bytes_max; })},
                   {"grpc-max-streams", "N", "calls at once on one connection [1024]", honoured,
                    Number(
                        1, 1'000'000, [](ServeOptions & o) -> auto& { return o.grpc.streams_max; })},
                   {"grpc-max-connections", "N", "open connections [16384]", honoured,
                    Number(
                        1, 1'000'000, [](ServeOptions & o) -> auto& { return o.grpc.connections_max; })},
                   {"grpc-infer-response-compression-level", "LEVEL",
                    "none, or gzip for low, medium, high [none]", honoured, SetCompression},
                   {"grpc-keepalive-time", "MS",
                    "silence before the server asks whether a client is there [7200000]", honoured,
                    Scaled(
                        1, INT32_MAX, base::kNsPerMs,
                        [](ServeOptions & o) -> auto& { return o.grpc.keepalive_time_ns; })},
                   {"grpc-keepalive-timeout", "MS", "wait for the answer to that [20000]", honoured,
                    Scaled(
                        1, INT32_MAX, base::kNsPerMs,
                        [](ServeOptions & o) -> auto& { return o.grpc.keepalive_timeout_ns; })},
               });
}

void AddObservation(std::vector<OptionRow>* rows) {
  const auto honoured = OptionClass::kHonoured;
  rows->insert(
      rows->end(),
      {
          {"allow-metrics", "BOOL", "serve /metrics [true]", honoured,
           Bool([](ServeOptions & o) -> auto& { return o.allow_metrics; })},
          {"metrics-port", "PORT", "[8002]", honoured,
           Number(
               0, 65535, [](ServeOptions & o) -> auto& { return o.metrics.port; })},
          {"metrics-address", "ADDRESS", "[that of HTTP]", honoured,
           Text([](ServeOptions & o) -> auto& { return o.metrics.address; })},
          {"metrics-config", "SETTING=VALUE", "counter_latencies=false: without nv_inference_*_duration_us",
           honoured, SetMetricsConfig},
          {"log-verbose", "LEVEL", "0: off [0]", honoured,
           Number(
               0, 1000, [](ServeOptions & o) -> auto& { return o.log.verbose_level; })},
          {"log-info", "BOOL", "[true]", honoured,
           Bool([](ServeOptions & o) -> auto& { return o.log.info; })},
          {"log-warning", "BOOL", "[true]", honoured,
           Bool([](ServeOptions & o) -> auto& { return o.log.warning; })},
          {"log-error", "BOOL", "[true]", honoured,
           Bool([](ServeOptions & o) -> auto& { return o.log.error; })},
          {"log-format", "FORMAT", "default, ISO8601 or json [default]", honoured, SetLogFormat},
          {"log-file", "FILE", "[standard error]", honoured,
           Text([](ServeOptions & o) -> auto& { return o.log.file; })},
      });
}

void AddWithoutEffect(std::vector<OptionRow>* rows) {
  static constexpr std::string_view kNames[] = {"http-thread-count",
                                                "grpc-infer-thread-count",
                                                "grpc-infer-allocation-pool-size",
                                                "grpc-max-response-pool-size",
                                                "grpc-keepalive-permit-without-calls",
                                                "grpc-http2-max-pings-without-data",
                                                "grpc-http2-min-recv-ping-interval-without-data",
                                                "grpc-http2-max-ping-strikes",
                                                "grpc-max-connection-age",
                                                "grpc-max-connection-age-grace",
                                                "allow-gpu-metrics",
                                                "allow-cpu-metrics",
                                                "metrics-interval-ms",
                                                "trace-file",
                                                "trace-level",
                                                "trace-rate",
                                                "trace-count",
                                                "trace-log-frequency",
                                                "trace-config",
                                                "model-load-retry-count",
                                                "model-load-gpu-limit",
                                                "enable-peer-access",
                                                "buffer-manager-thread-count",
                                                "pinned-memory-pool-byte-size",
                                                "cuda-memory-pool-byte-size",
                                                "cuda-virtual-address-size",
                                                "min-supported-compute-capability",
                                                "backend-directory",
                                                "cache-directory",
                                                "cache-config",
                                                "response-cache-byte-size",
                                                "repoagent-directory",
                                                "host-policy",
                                                "rate-limit-resource"};
  for (const std::string_view name : kNames) {
    rows->push_back({name, "VALUE", "", OptionClass::kNoEffect, Ignore});
  }
}

void AddRefused(std::vector<OptionRow>* rows) {
  struct Refused {
    std::string_view name, harmless;
  };
  static constexpr Refused kRows[] = {{"http-restricted-api", ""},
                                      {"grpc-restricted-protocol", ""},
                                      {"http-header-forward-pattern", ""},
                                      {"grpc-header-forward-pattern", ""},
                                      {"grpc-use-ssl", "false"},
                                      {"grpc-use-ssl-mutual", "false"},
                                      {"grpc-server-cert", ""},
                                      {"grpc-server-key", ""},
                                      {"grpc-root-cert", ""},
                                      {"rate-limit", "off"},
                                      {"model-namespacing", "false"},
                                      {"allow-sagemaker", "false"},
                                      {"sagemaker-port", ""},
                                      {"sagemaker-safe-port-range", ""},
                                      {"sagemaker-thread-count", ""},
                                      {"allow-vertex-ai", "false"},
                                      {"vertex-ai-port", ""},
                                      {"vertex-ai-thread-count", ""},
                                      {"vertex-ai-default-model", ""}};
  for (const auto& row : kRows) {
    rows->push_back({row.name, "VALUE", "", OptionClass::kRefused, OnlyHarmless(row.harmless)});
  }
}

}  // namespace

std::span<const OptionRow> OptionTable() {
  static const std::vector<OptionRow> rows = [] {
    std::vector<OptionRow> out;
    AddGeneral(&out);
    AddHttp(&out);
    AddGrpc(&out);
    AddObservation(&out);
    AddWithoutEffect(&out);
    AddRefused(&out);
    return out;
  }();
  return rows;
}

}  // namespace stoker::apps
