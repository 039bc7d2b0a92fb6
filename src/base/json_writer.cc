#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstring>

#include <stoker/base/json.h>
#include <stoker/base/utf8.h>

#include "json_internal.h"
#include "shortest_decimal.h"

namespace stoker::base {
namespace {

using internal::kNumberSize;

char* PutNumber(char* at, float value) { return internal::PutShortest(at, value); }
char* PutNumber(char* at, double value) { return internal::PutShortest(at, value); }

char* PutNumber(char* at, bool value) {
  std::memcpy(at, value ? "true" : "false", 5);
  return at + (value ? 4 : 5);
}

template <std::integral T>
char* PutNumber(char* at, T value) {
  return std::to_chars(at, at + kNumberSize, value).ptr;
}

template <typename T>
void AppendNumber(std::string* out, T value) {
  char text[kNumberSize];
  out->append(text, PutNumber(text, value));
}

/// The first byte at or after p that a JSON string cannot hold as it is, or that is not ASCII.
const char* FindSpecial(const char* p, const char* end) {
  for (; end - p >= 8; p += 8) {
    const uint64_t chunk = internal::LoadEight(p);
    const uint64_t marks = internal::StringSpecials(chunk) | (chunk & internal::kHighs);
    if (marks != 0) return p + (std::countr_zero(marks) >> 3);
  }
  while (p != end && static_cast<signed char>(*p) >= 0x20 && *p != '"' && *p != '\\') ++p;
  return p;
}

void AppendEscape(std::string* out, char c) {
  static constexpr char kHex[] = "0123456789abcdef";
  static constexpr char kShort[] = "btn?fr";
  *out += '\\';
  if (c == '"' || c == '\\') {
    *out += c;
  } else if (c >= '\b' && c <= '\r' && c != '\v') {
    *out += kShort[c - '\b'];
  } else {
    out->append("u00");
    *out += kHex[c >> 4];
    *out += kHex[c & 15];
  }
}

}  // namespace

void AppendJsonString(std::string* out, std::string_view text) {
  const char* p = text.data();
  const char* const end = p + text.size();
  *out += '"';
  for (;;) {
    const char* const special = FindSpecial(p, end);
    out->append(p, special);
    p = special;
    if (p == end) break;
    if (static_cast<signed char>(*p) >= 0) {
      AppendEscape(out, *p++);
      continue;
    }
    const char* last = p;
    while (last != end && static_cast<signed char>(*last) < 0) ++last;
    AppendValidUtf8(out, {p, static_cast<size_t>(last - p)});
    p = last;
  }
  *out += '"';
}

void AppendJsonNumber(std::string* out, double value) { AppendNumber(out, value); }
void AppendJsonNumber(std::string* out, float value) { AppendNumber(out, value); }

template <typename T>
void AppendJsonNumbers(std::string* out, std::span<const T> values) {
  // Room for a block at a time, so that no number is checked against the end of the string.
  constexpr size_t kBlock = 64;
  for (size_t done = 0; done < values.size(); done += kBlock) {
    char text[kBlock * (kNumberSize + 1)];
    char* at = text;
    for (const T value : values.subspan(done, std::min(kBlock, values.size() - done))) {
      at = PutNumber(at, value);
      *at++ = ',';
    }
    const bool last = values.size() - done <= kBlock;
    out->append(text, at - (last ? 1 : 0));
  }
}

template void AppendJsonNumbers(std::string*, std::span<const float>);
template void AppendJsonNumbers(std::string*, std::span<const double>);
template void AppendJsonNumbers(std::string*, std::span<const int64_t>);
template void AppendJsonNumbers(std::string*, std::span<const uint64_t>);
template void AppendJsonNumbers(std::string*, std::span<const int32_t>);
template void AppendJsonNumbers(std::string*, std::span<const uint32_t>);
template void AppendJsonNumbers(std::string*, std::span<const int16_t>);
template void AppendJsonNumbers(std::string*, std::span<const uint16_t>);
template void AppendJsonNumbers(std::string*, std::span<const int8_t>);
template void AppendJsonNumbers(std::string*, std::span<const uint8_t>);
template void AppendJsonNumbers(std::string*, std::span<const bool>);

void JsonWriter::Separate() {
  if (comma_) *out_ += ',';
  comma_ = true;
}

JsonWriter& JsonWriter::BeginObject() {
  Raw("{");
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  Raw("[");
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  *out_ += '}';
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  *out_ += ']';
  comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  String(key);
  *out_ += ':';
  comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view text) {
  Separate();
  AppendJsonString(out_, text);
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) {
  Separate();
  AppendNumber(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Uint(uint64_t value) {
  Separate();
  AppendNumber(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Double(double value) {
  Separate();
  AppendNumber(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Float(float value) {
  Separate();
  AppendNumber(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) { return Raw(value ? "true" : "false"); }
JsonWriter& JsonWriter::Null() { return Raw("null"); }

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  out_->append(json);
  return *this;
}

}  // namespace stoker::base
