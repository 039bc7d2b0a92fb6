#include <stoker/base/utf8.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include <stoker/base/check.h>

namespace stoker::base {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// The number of ASCII bytes at the start of [p, end).
const char* SkipAscii(const char* p, const char* end) {
  while (end - p >= 8) {
    uint64_t chunk;
    std::memcpy(&chunk, p, 8);
    chunk &= 0x8080808080808080u;
    if (chunk != 0) return p + (std::countr_zero(chunk) >> 3);
    p += 8;
  }
  while (p != end && static_cast<signed char>(*p) >= 0) ++p;
  return p;
}

struct Lead {
  int length;         // of the whole sequence; 0 for a byte that starts none
  uint8_t low, high;  // allowed range of the second byte
};

Lead ClassifyLead(uint8_t byte) {
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Sequence FirstUtf8(std::string_view text) {
  CHECK(!text.empty());
  const auto at = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (at(0) < 0x80) return {1, true};
  const Lead lead = ClassifyLead(at(0));
  if (lead.length == 0) return {1, false};
  if (text.size() < 2 || at(1) < lead.low || at(1) > lead.high) return {1, false};
  const auto length = static_cast<size_t>(lead.length);
  for (size_t i = 2; i < length; ++i) {
    if (i >= text.size() || (at(i) & 0xC0) != 0x80) return {i, false};
  }
  return {length, true};
}

size_t Utf8ValidPrefix(std::string_view text) {
  const char* const start = text.data();
  const char* const end = start + text.size();
  const char* p = start;
  for (;;) {
    p = SkipAscii(p, end);
    while (p != end && static_cast<signed char>(*p) < 0) {
      const Utf8Sequence sequence = FirstUtf8({p, static_cast<size_t>(end - p)});
      if (!sequence.valid) return static_cast<size_t>(p - start);
      p += sequence.length;
    }
    if (p == end) return text.size();
  }
}

void AppendUtf8(std::string* out, char32_t code_point) {
  const auto put = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  const auto c = static_cast<uint32_t>(code_point);
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) {
    out->append(kReplacement);
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

void AppendValidUtf8(std::string* out, std::string_view text) {
  while (!text.empty()) {
    const size_t valid = Utf8ValidPrefix(text);
    out->append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) return;
    out->append(kReplacement);
    text.remove_prefix(FirstUtf8(text).length);
  }
}

}  // namespace stoker::base
