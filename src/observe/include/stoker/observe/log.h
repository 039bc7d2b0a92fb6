#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include <stoker/base/status.h>

namespace stoker::observe {

enum class LogLevel : uint8_t { kVerbose, kInfo, kWarning, kError };
enum class LogFormat : uint8_t { kDefault, kIso8601, kJson };  // the first two carry Triton's names

struct LogField {
  std::string_view name;
  std::variant<std::string_view, int64_t, uint64_t, double, bool> value;
};

/// What the logging extension shows and sets.
struct LogSettings {
  std::string file;  // empty: stderr. Fixed at start: no run-time file paths
  bool info = true;
  bool warning = true;
  bool error = true;
  uint32_t verbose_level = 0;
  LogFormat format = LogFormat::kDefault;
};

/// Structured log records to stderr or a file, one line each, whole lines only (one write a
/// record). Never blocks a caller for longer than the write; records that cannot be written are
/// counted. Outside text is escaped, so that a request cannot forge a line. Thread-safe.
class Log {
 public:
  static base::Result<std::unique_ptr<Log>> Open(LogSettings settings);
  /// Hands every rendered line to `sink` instead (tests).
  static std::unique_ptr<Log> ToFunction(LogSettings settings, std::function<void(std::string_view)> sink);
  ~Log();

  bool Enabled(LogLevel level, uint32_t verbosity = 1) const;
  void Write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});
  void Info(std::string_view message, std::initializer_list<LogField> fields = {}) {
    Write(LogLevel::kInfo, message, fields);
  }
  void Warning(std::string_view message, std::initializer_list<LogField> fields = {}) {
    Write(LogLevel::kWarning, message, fields);
  }
  void Error(std::string_view message, std::initializer_list<LogField> fields = {}) {
    Write(LogLevel::kError, message, fields);
  }

  LogSettings settings() const;
  /// Changes everything but the file (kInvalidArgument when that differs).
  base::Status Apply(const LogSettings& settings);
  uint64_t dropped() const;

 private:
  struct State;
  explicit Log(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace stoker::observe
