#include "openvino/onnx_check.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <stoker/base/str_cat.h>

namespace stoker::engines::internal {
namespace {

constexpr int kDepthMax = 100;
constexpr size_t kLocationsMax = 100000;
constexpr uint64_t kPathMax = 4096;

// The message types of onnx.proto on the way to a TensorProto's external_data.
enum class Message : uint8_t {
  kSkip,
  kModel,
  kTraining,
  kGraph,
  kFunction,
  kNode,
  kAttribute,
  kSparse,
  kTensor,
  kEntry,
};

// What message type field `field` of a message of type `parent` holds.
Message Child(Message parent, uint64_t field) {
  switch (parent) {
    case Message::kModel:
      return field == 7    ? Message::kGraph
             : field == 20 ? Message::kTraining
             : field == 25 ? Message::kFunction
                           : Message::kSkip;
    case Message::kTraining:
      return field == 1 || field == 2 ? Message::kGraph : Message::kSkip;
    case Message::kGraph:
      return field == 1    ? Message::kNode
             : field == 5  ? Message::kTensor
             : field == 15 ? Message::kSparse
                           : Message::kSkip;
    case Message::kFunction:
      return field == 7 ? Message::kNode : field == 11 ? Message::kAttribute : Message::kSkip;
    case Message::kNode:
      return field == 5 ? Message::kAttribute : Message::kSkip;
    case Message::kAttribute:
      if (field == 5 || field == 10) return Message::kTensor;
      if (field == 6 || field == 11) return Message::kGraph;
      return field == 22 || field == 23 ? Message::kSparse : Message::kSkip;
    case Message::kSparse:
      return field == 1 || field == 2 ? Message::kTensor : Message::kSkip;
    case Message::kTensor:
      return field == 13 ? Message::kEntry : Message::kSkip;
    case Message::kEntry:
    case Message::kSkip:
      break;
  }
  return Message::kSkip;
}

class Walker {
 public:
  explicit Walker(std::istream& stream) : stream_(stream) {
    stream_.seekg(0, std::ios::end);
    const std::streamoff end = stream_.tellg();
    size_ = end < 0 ? 0 : static_cast<uint64_t>(end);
    stream_.seekg(0);
  }

  base::Result<std::vector<std::string>> Walk() {
    if (size_ == 0) return Malformed("the file is empty");
    STOKER_RETURN_IF_ERROR(WalkMessage(Message::kModel, size_, 0));
    if (!has_graph_) return Malformed("there is no graph in it");
    return std::vector<std::string>(locations_.begin(), locations_.end());
  }

 private:
  base::Status Malformed(std::string_view what) const {
    return base::InvalidArgument(base::StrCat("not a valid ONNX file: ", what, " at byte ", position_));
  }

  base::Status ReadVarint(uint64_t end, uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const int byte = position_ < end ? stream_.get() : -1;
      if (byte < 0) return Malformed("a number is cut short");
      ++position_;
      *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return base::OkStatus();
    }
    return Malformed("a number is too long");
  }

  base::Status Skip(uint64_t count, uint64_t end) {
    if (count > end - position_) return Malformed("a field is longer than what holds it");
    position_ += count;
    stream_.seekg(static_cast<std::streamoff>(position_));
    return stream_.good() ? base::OkStatus() : Malformed("cannot read on");
  }

  base::Status ReadText(uint64_t length, uint64_t end, std::string* text) {
    if (length > end - position_) return Malformed("a field is longer than what holds it");
    if (length > kPathMax) return Malformed("a text of external_data is too long");
    text->resize(length);
    if (length > 0 && !stream_.read(text->data(), static_cast<std::streamsize>(length)))
      return Malformed("cannot read on");
    position_ += length;
    return base::OkStatus();
  }

  base::Status WalkMessage(Message type, uint64_t end, int depth) {
    if (depth > kDepthMax) return Malformed("messages nest too deep");
    std::string key, value;
    while (position_ < end) {
      uint64_t tag = 0;
      uint64_t length = 0;
      STOKER_RETURN_IF_ERROR(ReadVarint(end, &tag));
      const uint64_t field = tag >> 3;
      if (field == 0) return Malformed("a field has the number 0");
      switch (tag & 7) {
        case 0:
          STOKER_RETURN_IF_ERROR(ReadVarint(end, &length));
          continue;
        case 1:
          STOKER_RETURN_IF_ERROR(Skip(8, end));
          continue;
        case 5:
          STOKER_RETURN_IF_ERROR(Skip(4, end));
          continue;
        case 2:
          break;
        default:
          return Malformed("a field has an unknown wire type");
      }
      STOKER_RETURN_IF_ERROR(ReadVarint(end, &length));
      if (type == Message::kEntry && (field == 1 || field == 2)) {
        STOKER_RETURN_IF_ERROR(ReadText(length, end, field == 1 ? &key : &value));
        continue;
      }
      const Message child = Child(type, field);
      if (child == Message::kSkip) {
        STOKER_RETURN_IF_ERROR(Skip(length, end));
        continue;
      }
      if (length > end - position_) return Malformed("a message is longer than what holds it");
      has_graph_ = has_graph_ || child == Message::kGraph;
      STOKER_RETURN_IF_ERROR(WalkMessage(child, position_ + length, depth + 1));
    }
    if (type == Message::kEntry && key == "location") locations_.insert(value);
    return locations_.size() > kLocationsMax ? Malformed("too many external data files") : base::OkStatus();
  }

  std::istream& stream_;
  uint64_t size_ = 0;
  uint64_t position_ = 0;
  bool has_graph_ = false;
  std::set<std::string> locations_;
};

// Whether `path` lies in `folder`; both canonical.
bool Inside(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto [in_folder, in_path] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return in_folder == folder.end() && in_path != path.end();
}

base::Status CheckLocation(const std::string& model_path, const std::string& location) {
  namespace fs = std::filesystem;
  const auto refuse = [&](std::string_view what) {
    return base::InvalidArgument(base::StrCat(model_path, ": external data location ", base::Quoted(location),
                                              " ", what,
                                              "; it must name a file inside the model's own folder"));
  };
  const fs::path relative(location);
  if (location.empty() || location.find('\0') != std::string::npos) return refuse("is not a file name");
  if (relative.is_absolute()) return refuse("is an absolute path");
  for (const fs::path& part : relative) {
    if (part == "..") return refuse("leads out of the folder");
  }
  std::error_code error;
  const fs::path folder = fs::canonical(fs::path(model_path).parent_path(), error);
  if (error) return refuse(base::StrCat("cannot be looked up: ", error.message()));
  const fs::path target = fs::canonical(folder / relative, error);
  if (error) {
    return base::NotFound(base::StrCat(model_path, ": external data file ",
                                       base::Quoted((folder / relative).string()),
                                       " cannot be opened: ", error.message()));
  }
  if (!Inside(target, folder)) return refuse(base::StrCat("is a link to ", target.string()));
  return fs::is_regular_file(target, error) ? base::OkStatus() : refuse("is not a regular file");
}

}  // namespace

base::Result<std::vector<std::string>> ExternalDataLocations(std::istream& stream) {
  return Walker(stream).Walk();
}

base::Status CheckOnnxFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return base::NotFound(base::StrCat("cannot open model file ", path));
  auto locations = ExternalDataLocations(stream);
  if (!locations.ok()) return locations.status().WithContext(path);
  for (const std::string& location : *locations) STOKER_RETURN_IF_ERROR(CheckLocation(path, location));
  return base::OkStatus();
}

}  // namespace stoker::engines::internal
