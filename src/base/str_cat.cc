#include <stoker/base/str_cat.h>

namespace stoker::base {
namespace internal {

void AppendPieces(std::string* out, const std::string_view* pieces, size_t count) {
  size_t size = out->size();
  for (size_t i = 0; i < count; ++i) size += pieces[i].size();
  out->reserve(size);
  for (size_t i = 0; i < count; ++i) out->append(pieces[i]);
}

std::string Concatenate(const std::string_view* pieces, size_t count) {
  std::string out;
  AppendPieces(&out, pieces, count);
  return out;
}

}  // namespace internal

std::string Quoted(std::string_view text) {
  constexpr size_t kBytesMax = 200;
  return Quoted(text, kBytesMax);
}

std::string Quoted(std::string_view text, size_t bytes_max) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, bytes_max)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += text.size() > bytes_max ? "…\"" : "\"";
  return out;
}

}  // namespace stoker::base
