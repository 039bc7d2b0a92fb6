#include <stoker/observe/log.h>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <stoker/base/clock.h>
#include <stoker/base/json.h>
#include <stoker/base/mutex.h>
#include <stoker/base/str_cat.h>

namespace stoker::observe {
namespace {

constexpr char kLetters[] = {'V', 'I', 'W', 'E'};
constexpr std::string_view kNames[] = {"verbose", "info", "warning", "error"};

tm Split(int64_t wall_ns) {
  const time_t seconds = wall_ns / base::kNsPerSecond;
  tm out{};
  gmtime_r(&seconds, &out);
  return out;
}

/// "I1201 14:45:55.123456 4711 " as glog writes it, or with an ISO 8601 date.
std::string Prefix(LogFormat format, LogLevel level, int64_t wall_ns) {
  const tm t = Split(wall_ns);
  const int micros = static_cast<int>(wall_ns % base::kNsPerSecond / 1000);
  const char letter = kLetters[static_cast<size_t>(level)];
  const auto thread = static_cast<int>(syscall(SYS_gettid));
  char out[80];
  if (format == LogFormat::kIso8601) {
    std::snprintf(out, sizeof(out), "%04d-%02d-%02dT%02d:%02d:%02dZ %c %d ", t.tm_year + 1900, t.tm_mon + 1,
                  t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, letter, thread);
  } else {
    std::snprintf(out, sizeof(out), "%c%02d%02d %02d:%02d:%02d.%06d %d ", letter, t.tm_mon + 1, t.tm_mday,
                  t.tm_hour, t.tm_min, t.tm_sec, micros, thread);
  }
  return out;
}

std::string RfcTime(int64_t wall_ns) {
  const tm t = Split(wall_ns);
  char out[64];
  std::snprintf(out, sizeof(out), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", t.tm_year + 1900, t.tm_mon + 1,
                t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec,
                static_cast<int>(wall_ns % base::kNsPerSecond / base::kNsPerMs));
  return out;
}

/// Control characters would let outside text begin a line of its own.
void AppendOneLine(std::string* out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      *out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      *out += "\\x";
      *out += kHex[byte >> 4];
      *out += kHex[byte & 15];
    } else {
      *out += c;
    }
  }
}

std::string RenderJson(LogLevel level, int64_t wall_ns, std::string_view message,
                       std::initializer_list<LogField> fields) {
  std::string out;
  base::JsonWriter json(&out);
  json.BeginObject();
  json.Key("@timestamp").String(RfcTime(wall_ns));
  json.Key("level").String(kNames[static_cast<size_t>(level)]);
  json.Key("message").String(message);
  for (const auto& field : fields) {
    json.Key(field.name);
    if (const auto* text = std::get_if<std::string_view>(&field.value)) json.String(*text);
    if (const auto* number = std::get_if<int64_t>(&field.value)) json.Int(*number);
    if (const auto* number = std::get_if<uint64_t>(&field.value)) json.Uint(*number);
    if (const auto* number = std::get_if<double>(&field.value)) json.Double(*number);
    if (const auto* flag = std::get_if<bool>(&field.value)) json.Bool(*flag);
  }
  json.EndObject();
  return out + "\n";
}

// Room for the reason why a model does not load, with its paths.
constexpr size_t kValueBytesMax = 4096;

std::string RenderText(std::string prefix, std::string_view message, std::initializer_list<LogField> fields) {
  AppendOneLine(&prefix, message);
  for (const auto& field : fields) {
    base::StrAppend(&prefix, " ", field.name, "=");
    std::visit(
        [&prefix](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string_view>) {
            prefix += base::Quoted(value, kValueBytesMax);
          } else {
            base::StrAppend(&prefix, value);
          }
        },
        field.value);
  }
  return prefix + "\n";
}

}  // namespace

struct Log::State {
  mutable base::Mutex mutex;
  LogSettings settings GUARDED_BY(mutex);
  std::atomic<uint32_t> enabled{0};  // bit per level; checked without the lock
  std::atomic<uint32_t> verbose{0};
  std::atomic<uint64_t> dropped{0};
  int fd = STDERR_FILENO;
  std::function<void(std::string_view)> sink;

  void Publish(const LogSettings& s) {
    enabled =
        (s.verbose_level > 0 ? 1u : 0u) | (s.info ? 2u : 0u) | (s.warning ? 4u : 0u) | (s.error ? 8u : 0u);
    verbose = s.verbose_level;
  }

  void Emit(std::string_view line) {
    if (sink) return sink(line);
    while (!line.empty()) {
      const ssize_t written = ::write(fd, line.data(), line.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        ++dropped;
        return;
      }
      line.remove_prefix(static_cast<size_t>(written));
    }
  }
};

Log::Log(std::unique_ptr<State> state) : state_(std::move(state)) {}

Log::~Log() {
  if (state_->fd != STDERR_FILENO) ::close(state_->fd);
}

base::Result<std::unique_ptr<Log>> Log::Open(LogSettings settings) {
  auto state = std::make_unique<State>();
  if (!settings.file.empty()) {
    state->fd = ::open(settings.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (state->fd < 0) {
      return base::InvalidArgument(base::StrCat("cannot open the log file ", base::Quoted(settings.file),
                                                ": ", std::strerror(errno),
                                                "; choose another with --log-file"));
    }
  }
  state->Publish(settings);
  {
    base::MutexLock lock(&state->mutex);
    state->settings = std::move(settings);
  }
  return std::unique_ptr<Log>(new Log(std::move(state)));
}

std::unique_ptr<Log> Log::ToFunction(LogSettings settings, std::function<void(std::string_view)> sink) {
  auto state = std::make_unique<State>();
  state->Publish(settings);
  state->sink = std::move(sink);
  {
    base::MutexLock lock(&state->mutex);
    state->settings = std::move(settings);
  }
  return std::unique_ptr<Log>(new Log(std::move(state)));
}

bool Log::Enabled(LogLevel level, uint32_t verbosity) const {
  if ((state_->enabled.load(std::memory_order_relaxed) & (1u << static_cast<unsigned>(level))) == 0)
    return false;
  return level != LogLevel::kVerbose || verbosity <= state_->verbose.load(std::memory_order_relaxed);
}

void Log::Write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (!Enabled(level)) return;
  const int64_t now = base::Clock::Real().WallNs();
  base::MutexLock lock(&state_->mutex);
  const LogFormat format = state_->settings.format;
  state_->Emit(format == LogFormat::kJson ? RenderJson(level, now, message, fields)
                                          : RenderText(Prefix(format, level, now), message, fields));
}

LogSettings Log::settings() const {
  base::MutexLock lock(&state_->mutex);
  return state_->settings;
}

base::Status Log::Apply(const LogSettings& settings) {
  base::MutexLock lock(&state_->mutex);
  if (settings.file != state_->settings.file) {
    return base::InvalidArgument(
        "log_file cannot be changed while the server runs; start it with --log-file");
  }
  state_->settings = settings;
  state_->Publish(settings);
  return base::OkStatus();
}

uint64_t Log::dropped() const { return state_->dropped.load(); }

}  // namespace stoker::observe
