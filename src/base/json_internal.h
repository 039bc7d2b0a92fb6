#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

/// What the JSON reader's files share.
namespace stoker::base::internal {

inline bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
inline bool IsDigit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

inline const char* SkipSpace(const char* p, const char* end) {
  while (p != end && static_cast<unsigned char>(*p) <= ' ' && IsSpace(*p)) ++p;
  return p;
}

inline constexpr uint64_t kOnes = 0x0101010101010101u;
inline constexpr uint64_t kHighs = 0x8080808080808080u;

inline uint64_t LoadEight(const char* p) {
  uint64_t chunk;
  std::memcpy(&chunk, p, 8);
  return chunk;
}

/// High bits mark the bytes of `chunk` that are a quote, a backslash or below 0x20; exact up to the
/// first marked byte (lowest address), which is the one that counts.
inline uint64_t StringSpecials(uint64_t chunk) {
  const uint64_t quotes = chunk ^ (kOnes * '"');
  const uint64_t slashes = chunk ^ (kOnes * '\\');
  const uint64_t marks =
      ((quotes - kOnes) & ~quotes) | ((slashes - kOnes) & ~slashes) | ((chunk - kOnes * 0x20) & ~chunk);
  return marks & kHighs;
}

/// The text of a number after its syntax was checked.
struct Decimal {
  uint64_t digits = 0;      // all digits as one integer, modulo 2^64
  int64_t exponent = 0;     // value = ±digits · 10^exponent
  int64_t significant = 0;  // digits from the first that is not zero; at most 19 fit `digits`
  bool negative = false;
  bool fraction = false;  // a point or an exponent was written
};

/// Checks -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)? at p; null when it is not there.
const char* ScanDecimal(const char* p, const char* end, Decimal* out);
/// Passes NaN, Inf or Infinity with an optional minus at p; null when it is not there.
const char* ScanSpecial(const char* p, const char* end, double* out);

}  // namespace stoker::base::internal
