#include "repository/config_text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include <stoker/base/str_cat.h>

namespace stoker::host {
namespace {

using base::StrCat;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

constexpr size_t kTextBytesMax = 4 << 20;
constexpr int kNestingMax = 64;

/// Keeps the first error; protobuf may report several.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  explicit FirstError(std::string file) : file_(std::move(file)) {}
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = StrCat(file_, ":", line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string file_;
  std::string text_;
};

void CollectLines(const Message& message, TextFormat::ParseInfoTree* tree, const std::string& prefix,
                  FieldLines* lines) {
  if (tree == nullptr) return;
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
    const bool descend = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map();
    for (int i = 0; i < count; ++i) {
      const int index = field->is_repeated() ? i : -1;
      const auto location = tree->GetLocation(field, index);
      const std::string path =
          field->is_repeated() ? StrCat(prefix, field->name(), "[", i, "]") : prefix + field->name();
      lines->Add(path, location.line + 1);
      if (!descend) continue;
      const Message& nested = field->is_repeated()
                                  ? message.GetReflection()->GetRepeatedMessage(message, field, i)
                                  : message.GetReflection()->GetMessage(message, field);
      CollectLines(nested, tree->GetTreeForNested(field, index), path + ".", lines);
    }
  }
}

}  // namespace

std::string FieldLines::Where(std::string_view file, std::string_view path) const {
  for (const auto& entry : entries_) {
    if (entry.path == path && entry.line > 0) return StrCat(file, ":", entry.line, ": ", path);
  }
  for (const auto& entry : entries_) {  // a path without index means its first element
    if (entry.path == StrCat(path, "[0]") && entry.line > 0) return StrCat(file, ":", entry.line, ": ", path);
  }
  return StrCat(file, ": ", path);
}

base::Result<ParsedConfig> ParseConfigText(const std::string& file, std::string_view text) {
  if (text.size() > kTextBytesMax) {
    return base::InvalidArgument(
        StrCat(file, " has ", text.size(), " bytes, a model configuration may have ", kTextBytesMax));
  }
  ParsedConfig parsed;
  parsed.file = file;
  FirstError error(file);
  TextFormat::ParseInfoTree tree;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&tree);
  parser.SetRecursionLimit(kNestingMax);
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&stream, &parsed.config)) {
    return base::InvalidArgument(error.text().empty() ? StrCat(file, " is no model configuration")
                                                      : error.text());
  }
  CollectLines(parsed.config, &tree, "", &parsed.lines);
  return parsed;
}

base::Result<ParsedConfig> ParseConfigJson(std::string_view text) {
  if (text.size() > kTextBytesMax) {
    return base::InvalidArgument(
        StrCat("the configuration has ", text.size(), " bytes, it may have ", kTextBytesMax));
  }
  ParsedConfig parsed;
  parsed.file = "config parameter";
  const auto status = google::protobuf::util::JsonStringToMessage(std::string(text), &parsed.config);
  if (!status.ok()) {
    return base::InvalidArgument(
        StrCat("the 'config' parameter is no model configuration in JSON: ", std::string(status.message())));
  }
  return parsed;
}

}  // namespace stoker::host
