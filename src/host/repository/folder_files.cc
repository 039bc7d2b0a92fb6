#include "repository/folder_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <stoker/base/str_cat.h>

#include "repository/config_values.h"

namespace stoker::host {
namespace {

using base::StrCat;

constexpr size_t kEntriesMax = 100'000;
constexpr int kDepthMax = 16;

void AppendEntry(const std::filesystem::path& path, const std::string& name, std::string* out) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    base::StrAppend(out, name, "|gone\n");
    return;
  }
  const bool folder = S_ISDIR(info.st_mode);
  base::StrAppend(out, name, "|", info.st_ino, "|", folder ? 0 : info.st_size, "|",
                  folder ? 0 : info.st_mtim.tv_sec, ".", folder ? 0 : info.st_mtim.tv_nsec, "\n");
}

class Closer {
 public:
  explicit Closer(int fd) : fd_(fd) {}
  ~Closer() { ::close(fd_); }
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;

 private:
  int fd_;
};

base::Status WriteAll(int fd, std::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      return base::ResourceExhausted(StrCat("cannot write ", path, ": ", std::strerror(errno)));
    data.remove_prefix(static_cast<size_t>(written));
  }
  return base::OkStatus();
}

}  // namespace

std::string Fingerprint(const std::string& root) {
  std::vector<std::string> lines;
  std::error_code error;
  std::string self;
  AppendEntry(root, "", &self);
  lines.push_back(std::move(self));
  using Iterator = std::filesystem::recursive_directory_iterator;
  const auto options = std::filesystem::directory_options::skip_permission_denied |
                       std::filesystem::directory_options::follow_directory_symlink;
  for (Iterator it(root, options, error), end; !error && it != end && lines.size() < kEntriesMax;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with('.') || name == "__pycache__" || it.depth() >= kDepthMax) {
      it.disable_recursion_pending();
      continue;
    }
    std::string line;
    AppendEntry(it->path(), it->path().string().substr(root.size()), &line);
    lines.push_back(std::move(line));
  }
  std::sort(lines.begin(), lines.end());
  std::string out;
  for (const auto& line : lines) out += line;
  return out;
}

base::Result<std::string> ReadFile(const std::string& path, size_t bytes_max) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const std::string message = StrCat("cannot open ", path, ": ", std::strerror(errno));
    return errno == ENOENT ? base::NotFound(message) : base::InvalidArgument(message);
  }
  const Closer closer(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
    return base::InvalidArgument(StrCat(path, " is no regular file"));
  if (static_cast<size_t>(info.st_size) > bytes_max) {
    return base::InvalidArgument(
        StrCat(path, " has ", info.st_size, " bytes, at most ", bytes_max, " are read"));
  }
  std::string out(static_cast<size_t>(info.st_size), '\0');
  size_t filled = 0;
  while (filled < out.size()) {
    const ssize_t got = ::read(fd, out.data() + filled, out.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return base::InvalidArgument(StrCat("cannot read ", path, ": ", std::strerror(errno)));
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  out.resize(filled);
  return out;
}

std::vector<std::pair<int64_t, std::string>> VersionFolders(const std::string& path) {
  std::vector<std::pair<int64_t, std::string>> out;
  std::error_code error;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    if (name.empty() || name.front() < '1' || name.front() > '9' || !it->is_directory(ignored)) continue;
    int64_t version = 0;
    const auto [last, failure] = std::from_chars(name.data(), name.data() + name.size(), version);
    if (failure == std::errc() && last == name.data() + name.size())
      out.emplace_back(version, it->path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

base::Result<std::shared_ptr<const TemporaryFolder>> TemporaryFolder::Make() {
  std::string pattern = P_tmpdir "/stoker-load-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) {
    return base::ResourceExhausted(
        StrCat("cannot make a temporary folder ", pattern, ": ", std::strerror(errno)));
  }
  return std::shared_ptr<const TemporaryFolder>(new TemporaryFolder(std::move(pattern)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

base::Status TemporaryFolder::Write(std::string_view inner, const base::Bytes& content) const {
  if (!IsInnerPath(inner))
    return base::InvalidArgument(StrCat("file path ", base::Quoted(inner), " leaves the model's folder"));
  const std::filesystem::path path = std::filesystem::path(path_) / inner;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error)
    return base::ResourceExhausted(
        StrCat("cannot make ", path.parent_path().string(), ": ", error.message()));
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return base::InvalidArgument(StrCat("cannot make ", path.string(), ": ", std::strerror(errno)));
  const Closer closer(fd);
  return WriteAll(fd, content.text(), path.string());
}

}  // namespace stoker::host
