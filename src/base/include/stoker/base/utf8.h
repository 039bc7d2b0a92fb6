#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stoker::base {

/// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. Plain ASCII is
/// checked eight bytes at a time. All functions are pure.

/// The length of the longest prefix that is valid UTF-8 (text.size() when all of it is).
size_t Utf8ValidPrefix(std::string_view text);
inline bool IsUtf8(std::string_view text) { return Utf8ValidPrefix(text) == text.size(); }

/// What the start of a text holds.
struct Utf8Sequence {
  size_t length = 0;   // bytes; at least 1 for a non-empty text
  bool valid = false;  // false: `length` bytes that no valid sequence begins with (a maximal subpart)
};
/// The first character of `text`, which must not be empty.
Utf8Sequence FirstUtf8(std::string_view text);

/// Appends one code point; what is none (a surrogate, above U+10FFFF) becomes U+FFFD.
void AppendUtf8(std::string* out, char32_t code_point);

/// Appends `text` with each maximal invalid part replaced by U+FFFD, so that the result is valid.
void AppendValidUtf8(std::string* out, std::string_view text);

}  // namespace stoker::base
