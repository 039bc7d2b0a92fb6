#include <stoker/base/json.h>

#include <stoker/base/str_cat.h>
#include <stoker/base/utf8.h>

#include "json_internal.h"

namespace stoker::base {
namespace {

using internal::kHighs;
using internal::SkipSpace;

std::string Describe(const char* p, const char* end) {
  if (p >= end) return "the end of the text";
  const Utf8Sequence first = FirstUtf8({p, static_cast<size_t>(end - p)});
  return Quoted({p, first.length});
}

struct StringEnd {
  const char* at;  // the closing quote, a control character or the end of the text
  bool escapes;
  bool ascii;
};

StringEnd FindStringEnd(const char* p, const char* end) {
  bool escapes = false;
  uint64_t high = 0;
  for (;;) {
    while (end - p >= 8) {
      const uint64_t chunk = internal::LoadEight(p);
      const uint64_t marks = internal::StringSpecials(chunk);
      if (marks != 0) {
        const int before = std::countr_zero(marks) & ~7;
        high |= chunk & ((uint64_t{1} << before) - 1);
        p += before >> 3;
        break;
      }
      high |= chunk;
      p += 8;
    }
    if (end - p < 8) {
      for (; p != end && *p != '"' && *p != '\\' && static_cast<unsigned char>(*p) >= 0x20; ++p) {
        high |= static_cast<unsigned char>(*p);
      }
    }
    if (p == end || *p != '\\') return {p, escapes, (high & kHighs) == 0};
    escapes = true;
    if (end - p < 2) return {end, escapes, true};
    // The escaped character may be the first byte of a longer one.
    high |= static_cast<unsigned char>(p[1]);
    p += 2;
  }
}

/// Four hexadecimal digits at p, or -1.
int HexQuad(const char* p, const char* end) {
  if (end - p < 4) return -1;
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = p[i];
    int digit;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
      digit = (c | 0x20) - 'a' + 10;
    } else {
      return -1;
    }
    value = value << 4 | digit;
  }
  return value;
}

char SimpleEscape(char c) {
  switch (c) {
    case '"':
    case '\\':
    case '/':
      return c;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return 0;
  }
}

}  // namespace

JsonReader::JsonReader(std::string_view text, JsonLimits limits)
    : start_(text.data()), cursor_(start_), end_(start_ + text.size()), depth_limit_(limits.depth) {
  if (text.starts_with("\xEF\xBB\xBF")) cursor_ += 3;
}

std::string JsonReader::Where() const {
  size_t line = 1;
  size_t column = 1;
  for (const char* p = start_; p < cursor_; ++p) {
    if (*p == '\n') {
      ++line;
      column = 1;
    } else if ((static_cast<unsigned char>(*p) & 0xC0) != 0x80) {
      ++column;
    }
  }
  return StrCat("line ", line, ", column ", column);
}

Status JsonReader::Fail(const char* at, std::string_view problem, StatusCode code) {
  cursor_ = at;
  return {code, StrCat("JSON, ", Where(), ": ", problem)};
}

Status JsonReader::Expected(std::string_view wanted) {
  return Fail(cursor_, StrCat("expected ", wanted, ", found ", Describe(cursor_, end_)));
}

Status JsonReader::TooDeep(const char* at) {
  return Fail(at, StrCat("arrays and objects are nested deeper than the limit of ", depth_limit_));
}

bool JsonReader::StepOver(char c) {
  cursor_ = SkipSpace(cursor_, end_);
  if (cursor_ == end_ || *cursor_ != c) return false;
  ++cursor_;
  return true;
}

Result<JsonKind> JsonReader::Peek() {
  cursor_ = SkipSpace(cursor_, end_);
  if (cursor_ == end_) return JsonKind::kEnd;
  switch (*cursor_) {
    case '{':
      return JsonKind::kObject;
    case '[':
      return JsonKind::kArray;
    case '"':
      return JsonKind::kString;
    case 't':
    case 'f':
      return JsonKind::kBool;
    case 'n':
      return JsonKind::kNull;
    case '-':
    case 'N':
    case 'I':
      return JsonKind::kNumber;
    default:
      if (internal::IsDigit(*cursor_)) return JsonKind::kNumber;
      return Expected("a value");
  }
}

Status JsonReader::Enter(char open, std::string_view wanted) {
  if (!StepOver(open)) return Expected(wanted);
  if (depth_ >= depth_limit_) return TooDeep(cursor_ - 1);
  ++depth_;
  first_ = true;
  return OkStatus();
}

Status JsonReader::EnterObject() { return Enter('{', "an object"); }
Status JsonReader::EnterArray() { return Enter('[', "an array"); }

Result<bool> JsonReader::NextKey(std::string_view* key) {
  const bool first = std::exchange(first_, false);
  if (StepOver('}')) {
    --depth_;
    return false;
  }
  if (!first && !StepOver(',')) return Expected("',' or '}' after a member");
  cursor_ = SkipSpace(cursor_, end_);
  if (cursor_ == end_ || *cursor_ != '"') {
    return Expected(first ? "a member's name in double quotes or '}'" : "a member's name in double quotes");
  }
  STOKER_ASSIGN_OR_RETURN(*key, ReadStringAt());
  if (!StepOver(':')) return Expected("':' after a member's name");
  return true;
}

Result<bool> JsonReader::NextElement() {
  const bool first = std::exchange(first_, false);
  if (StepOver(']')) {
    --depth_;
    return false;
  }
  if (first) return true;
  if (!StepOver(',')) return Expected("',' or ']' after an element");
  cursor_ = SkipSpace(cursor_, end_);
  if (cursor_ != end_ && *cursor_ == ']') return Expected("a value after ','");
  return true;
}

Status JsonReader::ReadWord(std::string_view word) {
  cursor_ = SkipSpace(cursor_, end_);
  if (!std::string_view(cursor_, static_cast<size_t>(end_ - cursor_)).starts_with(word))
    return Expected(word);
  cursor_ += word.size();
  return OkStatus();
}

Status JsonReader::ReadNull() { return ReadWord("null"); }

Result<bool> JsonReader::ReadBool() {
  cursor_ = SkipSpace(cursor_, end_);
  if (cursor_ == end_ || (*cursor_ != 't' && *cursor_ != 'f')) return Expected("true or false");
  const bool value = *cursor_ == 't';
  STOKER_RETURN_IF_ERROR(ReadWord(value ? "true" : "false"));
  return value;
}

Result<std::string_view> JsonReader::ReadString() {
  cursor_ = SkipSpace(cursor_, end_);
  if (cursor_ == end_ || *cursor_ != '"') return Expected("a string in double quotes");
  return ReadStringAt();
}

Result<std::string_view> JsonReader::ReadStringAt() {
  const char* const begin = cursor_ + 1;
  const StringEnd stop = FindStringEnd(begin, end_);
  if (stop.at == end_) return Fail(cursor_, "this string has no closing quote");
  if (*stop.at != '"') return Fail(stop.at, "a control character in a string must be escaped");
  const std::string_view raw(begin, static_cast<size_t>(stop.at - begin));
  if (!stop.ascii) {
    const size_t valid = Utf8ValidPrefix(raw);
    if (valid != raw.size()) return Fail(begin + valid, "a byte here is not valid UTF-8");
  }
  if (!stop.escapes) {
    cursor_ = stop.at + 1;
    return raw;
  }
  STOKER_RETURN_IF_ERROR(Unescape(begin, stop.at));
  cursor_ = stop.at + 1;
  return std::string_view(scratch_);
}

Status JsonReader::Unescape(const char* p, const char* end) {
  scratch_.clear();
  while (p != end) {
    const void* found = std::memchr(p, '\\', static_cast<size_t>(end - p));
    const char* const slash = found == nullptr ? end : static_cast<const char*>(found);
    scratch_.append(p, slash);
    if (slash == end) break;
    if (slash[1] != 'u') {
      const char c = SimpleEscape(slash[1]);
      if (c == 0) return Fail(slash, StrCat("there is no escape ", Quoted({slash, 2})));
      scratch_ += c;
      p = slash + 2;
      continue;
    }
    const int unit = HexQuad(slash + 2, end);
    if (unit < 0) return Fail(slash, "\\u needs four hexadecimal digits");
    p = slash + 6;
    if (unit < 0xD800 || unit > 0xDFFF) {
      AppendUtf8(&scratch_, static_cast<char32_t>(unit));
      continue;
    }
    const bool pair = unit < 0xDC00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u';
    const int low = pair ? HexQuad(p + 2, end) : -1;
    if (low < 0xDC00 || low > 0xDFFF)
      return Fail(slash, "a surrogate without its other half is no character");
    AppendUtf8(&scratch_, static_cast<char32_t>(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)));
    p += 6;
  }
  return OkStatus();
}

Status JsonReader::SkipScalar() {
  STOKER_ASSIGN_OR_RETURN(const JsonKind kind, Peek());
  switch (kind) {
    case JsonKind::kNull:
      return ReadNull();
    case JsonKind::kBool:
      return ReadBool().status();
    case JsonKind::kNumber:
      return ReadNumberText().status();
    case JsonKind::kString:
      return ReadStringAt().status();
    default:
      return Expected("a value");
  }
}

Status JsonReader::SkipContainer() {
  open_.clear();
  do {
    bool more;
    if (!open_.empty() && open_.back() == '{') {
      std::string_view key;
      STOKER_ASSIGN_OR_RETURN(more, NextKey(&key));
    } else if (!open_.empty()) {
      STOKER_ASSIGN_OR_RETURN(more, NextElement());
    } else {
      more = true;
    }
    if (!more) {
      open_.pop_back();
      continue;
    }
    STOKER_ASSIGN_OR_RETURN(const JsonKind kind, Peek());
    if (kind == JsonKind::kObject) {
      STOKER_RETURN_IF_ERROR(EnterObject());
      open_ += '{';
    } else if (kind == JsonKind::kArray) {
      STOKER_RETURN_IF_ERROR(EnterArray());
      open_ += '[';
    } else {
      STOKER_RETURN_IF_ERROR(SkipScalar());
    }
  } while (!open_.empty());
  return OkStatus();
}

Result<std::string_view> JsonReader::Skip() {
  cursor_ = SkipSpace(cursor_, end_);
  const char* const begin = cursor_;
  STOKER_RETURN_IF_ERROR(SkipContainer());
  return std::string_view(begin, static_cast<size_t>(cursor_ - begin));
}

Status JsonReader::Finish() {
  if (depth_ != 0)
    return Internal(StrCat("JSON, ", Where(), ": the reader was left inside an array or object"));
  cursor_ = SkipSpace(cursor_, end_);
  if (cursor_ != end_) return Expected("nothing after the value");
  return OkStatus();
}

}  // namespace stoker::base
