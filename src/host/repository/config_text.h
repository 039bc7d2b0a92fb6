#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <stoker/base/status.h>

#include "model_config.pb.h"

namespace stoker::host {

/// Where the fields of a parsed configuration stand in its text, for messages.
class FieldLines {
 public:
  struct Entry {
    std::string path;  // "instance_group[0].rate_limiter"
    int line = 0;      // from 1
  };
  void Add(std::string path, int line) { entries_.push_back({std::move(path), line}); }
  /// "config.pbtxt:12: instance_group[0].rate_limiter", or without the line when it is not known
  /// (the JSON form has no lines).
  std::string Where(std::string_view file, std::string_view path) const;

 private:
  std::vector<Entry> entries_;
};

struct ParsedConfig {
  inference::ModelConfig config;
  FieldLines lines;
  std::string file;  // for messages
};

/// Parses the text form. Errors name file, line, column and what is wrong. At most 4 MiB, nesting
/// at most 64.
base::Result<ParsedConfig> ParseConfigText(const std::string& file, std::string_view text);
/// Parses the JSON form of a load request.
base::Result<ParsedConfig> ParseConfigJson(std::string_view text);

/// The whole message as JSON: field names as in the schema, every plain field printed, 64-bit numbers
/// as numbers.
std::string ConfigToJson(const inference::ModelConfig& config);

}  // namespace stoker::host
