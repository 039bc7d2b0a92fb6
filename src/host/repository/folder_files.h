#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stoker/base/bytes.h>
#include <stoker/base/status.h>

namespace stoker::host {

/// What changes whenever a file below `path` does: names, sizes and times, hidden files and
/// __pycache__ left out. At most 100,000 entries are looked at.
std::string Fingerprint(const std::string& path);

/// The whole of a file of at most `bytes_max` bytes.
base::Result<std::string> ReadFile(const std::string& path, size_t bytes_max);

/// Numeric folders below `path` (no leading zero, at least 1), ascending; other names are ignored.
std::vector<std::pair<int64_t, std::string>> VersionFolders(const std::string& path);

/// A folder of our own under the system's temporary one, removed with everything in it when this goes.
class TemporaryFolder {
 public:
  static base::Result<std::shared_ptr<const TemporaryFolder>> Make();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  /// Writes a file below it, making folders as needed. `inner` must satisfy IsInnerPath.
  base::Status Write(std::string_view inner, const base::Bytes& content) const;

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace stoker::host
