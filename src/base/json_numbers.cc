#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <stoker/base/json.h>
#include <stoker/base/str_cat.h>

#include "json_internal.h"
#include "powers_of_ten.h"

namespace stoker::base {
namespace internal {
namespace {

/// Eight ASCII digits, the first at the lowest address, as a number.
inline uint64_t ParseEight(uint64_t chunk) {
  chunk -= kOnes * '0';
  chunk = chunk * 10 + (chunk >> 8);  // pairs, in every second byte
  constexpr uint64_t kPairs = 0x000000FF000000FFu;
  return ((chunk & kPairs) * (100 + (uint64_t{1'000'000} << 32)) +
          ((chunk >> 16) & kPairs) * (1 + (uint64_t{10'000} << 32))) >>
         32;
}

/// Passes digits, folding them into *value (modulo 2^64).
[[gnu::always_inline]] inline const char* ScanDigits(const char* p, const char* end, uint64_t* value) {
  const char* const begin = p;
  uint64_t sum = *value;
  while (end - p >= 8) {
    const uint64_t chunk = LoadEight(p);
    const uint64_t raw = chunk ^ (kOnes * '0');
    const uint64_t stops = ((raw + kOnes * 0x76) | raw) & kHighs;  // exact up to the first stop
    if (stops == 0) {
      sum = sum * kWholePowers[8] + ParseEight(chunk);
      p += 8;
      continue;
    }
    const int digits = std::countr_zero(stops) >> 3;
    if (digits == 1 && p != begin) {  // the 17th digit of a double
      sum = sum * 10 + (raw & 0xFF);
    } else if (digits != 0) {
      const int unused = 64 - 8 * digits;
      const uint64_t padded = chunk << unused | (kOnes * '0') >> (64 - unused);
      sum = sum * kWholePowers[static_cast<size_t>(digits)] + ParseEight(padded);
    }
    *value = sum;
    return p + digits;
  }
  for (; p != end && IsDigit(*p); ++p) sum = sum * 10 + static_cast<uint64_t>(*p - '0');
  *value = sum;
  return p;
}

const char* ScanExponent(const char* p, const char* end, int64_t* exponent) {
  const bool sign = p != end && (*p == '-' || *p == '+');
  const bool negative = sign && *p == '-';
  if (sign) ++p;
  if (p == end || !IsDigit(*p)) return nullptr;
  int64_t value = 0;
  // Saturates far beyond any exponent that matters, and above the length of any text.
  for (; p != end && IsDigit(*p); ++p) {
    if (value < (int64_t{1} << 55)) value = value * 10 + (*p - '0');
  }
  *exponent += negative ? -value : value;
  return p;
}

[[gnu::always_inline]] inline const char* ScanDecimalInline(const char* p, const char* end, Decimal* out) {
  out->negative = p != end && *p == '-';
  if (out->negative) ++p;
  if (p == end) return nullptr;
  uint64_t digits = 0;
  int64_t significant = 0;
  if (*p == '0') {
    ++p;
    if (p != end && IsDigit(*p)) return nullptr;
  } else {
    const char* const first = p;
    // Rarely more than three digits stand before the point: not worth looking at eight together.
    while (p != end && p - first < 4 && IsDigit(*p)) digits = digits * 10 + static_cast<uint64_t>(*p++ - '0');
    if (p - first == 4) p = ScanDigits(p, end, &digits);
    significant = p - first;
    if (significant == 0) return nullptr;
  }
  int64_t exponent = 0;
  if (p != end && *p == '.') {
    const char* const first = ++p;
    if (significant == 0) {
      while (p != end && *p == '0') ++p;
    }
    const char* const counted = p;
    p = ScanDigits(p, end, &digits);
    if (p == first) return nullptr;
    significant += p - counted;
    exponent = first - p;
    out->fraction = true;
  }
  if (p != end && (*p | 0x20) == 'e') {
    p = ScanExponent(p + 1, end, &exponent);
    out->fraction = true;
  }
  out->digits = digits;
  out->exponent = exponent;
  out->significant = significant;
  return p;
}

template <typename T>
struct Layout;
template <>
struct Layout<double> {
  using Bits = uint64_t;
  static constexpr int kMantissa = 52;
  static constexpr int kBias = 1023;
};
template <>
struct Layout<float> {
  using Bits = uint32_t;
  static constexpr int kMantissa = 23;
  static constexpr int kBias = 127;
};

/// The correctly rounded magnitude by one 64×64-bit product, when that decides it. The true product
/// lies in [high, high + 2) units of its upper word, so only two values of the bits to be rounded off
/// leave it open. Wants significant ≤ 19, digits ≠ 0 and a power within the table: a normal double then,
/// though not always a normal float.
template <typename T>
inline bool QuickMagnitude(const Decimal& d, T* out) {
  using L = Layout<T>;
  const PowerOfTen& power = Power(static_cast<int>(d.exponent));
  const int zeros = std::countl_zero(d.digits);
  const Wide product = Wide{d.digits << zeros} * power.high;
  const auto high = static_cast<uint64_t>(product >> 64);
  const int drop = 62 - L::kMantissa + static_cast<int>(high >> 63);
  const uint64_t rest = high & ((uint64_t{1} << drop) - 1);
  const uint64_t half = uint64_t{1} << (drop - 1);
  if (rest - (half - 1) < 2) return false;
  const uint64_t mantissa = (high >> drop) + (rest >= half ? 1 : 0);
  const int exponent = 64 - zeros + power.exponent + 64 + drop + L::kMantissa + L::kBias;
  if (sizeof(T) == 4 && exponent < 1) return false;
  if (sizeof(T) == 4 && exponent >= 2 * L::kBias + 1) {
    *out = std::numeric_limits<T>::infinity();
    return true;
  }
  // The hidden bit raises the exponent by one; a carry out of the mantissa by another.
  const uint64_t bits = (static_cast<uint64_t>(exponent - 1) << L::kMantissa) + mantissa;
  *out = std::bit_cast<T>(static_cast<typename L::Bits>(bits));
  return true;
}

/// The general case. False when the text is beyond a double.
template <typename T>
[[gnu::noinline]] bool SlowFloating(const char* begin, const char* end, const Decimal& d, T* out) {
  T value{};
  const auto [last, error] = std::from_chars(begin, end, value);
  if (error == std::errc() && std::isfinite(value)) {
    *out = value;
    return true;
  }
  value = 0;
  if (d.exponent + d.significant > 0) {
    if (sizeof(T) == sizeof(double)) return false;
    double wide;
    if (!SlowFloating(begin, end, d, &wide)) return false;
    value = std::numeric_limits<T>::infinity();
  }
  *out = d.negative ? -value : value;
  return true;
}

enum Fault { kNone, kNoNumber, kFraction, kRange };  // kFraction: a number, but of no such kind

template <typename T>
inline const char* ParseLeaf(const char* p, const char* end, T* out,
                             Fault* fault) requires std::floating_point<T> {
  Decimal d;
  const char* const last = ScanDecimalInline(p, end, &d);
  if (last == nullptr) [[unlikely]] {
    double special;
    const char* const past = ScanSpecial(p, end, &special);
    if (past == nullptr) {
      *fault = kNoNumber;
      return nullptr;
    }
    *out = static_cast<T>(special);
    return past;
  }
  if (d.significant <= 19) [[likely]] {
    T magnitude = 0;
    if (d.digits == 0 ||
        (d.exponent >= kPowerMin && d.exponent <= kPowerMax && QuickMagnitude(d, &magnitude))) {
      *out = d.negative ? -magnitude : magnitude;
      return last;
    }
  }
  if (SlowFloating(p, last, d, out)) return last;
  *fault = kRange;
  return nullptr;
}

template <typename T>
inline const char* ParseLeaf(const char* p, const char* end, T* out,
                             Fault* fault) requires(std::integral<T> && !std::same_as<T, bool>) {
  const bool negative = p != end && *p == '-';
  const char* const first = p + (negative ? 1 : 0);
  uint64_t magnitude = 0;
  const char* const last = ScanDigits(first, end, &magnitude);
  const auto digits = last - first;
  *fault = kNoNumber;
  if (digits == 0 || (*first == '0' && digits > 1)) return nullptr;
  if (last != end && (*last == '.' || *last == 'e' || *last == 'E')) {
    *fault = kFraction;
    return nullptr;
  }
  // A sign that the type does not have is no matter of range.
  *fault = negative && !std::is_signed_v<T> ? kFraction : kRange;
  // Twenty digits that begin with 1 and stay below 2^64 did not wrap: anything smaller did.
  if (digits > 20 || (digits == 20 && (*first != '1' || magnitude < 10'000'000'000'000'000'000u)))
    return nullptr;
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<T>::max());
  const uint64_t limit = !negative ? kMax : std::is_signed_v<T> ? kMax + 1 : 0;
  if (magnitude > limit) return nullptr;
  *out = static_cast<T>(negative ? 0 - magnitude : magnitude);
  return last;
}

inline const char* ParseLeaf(const char* p, const char* end, bool* out, Fault* fault) {
  *fault = kNoNumber;
  const std::string_view rest(p, static_cast<size_t>(end - p));
  if (rest.starts_with("true")) {
    *out = true;
    return p + 4;
  }
  if (!rest.starts_with("false")) return nullptr;
  *out = false;
  return p + 5;
}

template <typename T>
std::string Wanted() {
  if constexpr (std::same_as<T, bool>) {
    return "true or false";
  } else if constexpr (std::floating_point<T>) {
    return "a number";
  } else {
    return StrCat("an integer from ", std::numeric_limits<T>::min(), " to ", std::numeric_limits<T>::max());
  }
}

}  // namespace

const char* ScanDecimal(const char* p, const char* end, Decimal* out) {
  return ScanDecimalInline(p, end, out);
}

const char* ScanSpecial(const char* p, const char* end, double* out) {
  std::string_view rest(p, static_cast<size_t>(end - p));
  const bool negative = rest.starts_with('-');
  if (negative) rest.remove_prefix(1);
  double value = std::numeric_limits<double>::infinity();
  size_t length;
  if (rest.starts_with("Infinity")) {
    length = 8;
  } else if (rest.starts_with("Inf")) {
    length = 3;
  } else if (rest.starts_with("NaN")) {
    length = 3;
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    return nullptr;
  }
  *out = negative ? -value : value;
  return rest.data() + length;
}

}  // namespace internal

using internal::Fault;
using internal::SkipSpace;

Status JsonReader::NumberFault(const char* at, int fault, std::string_view wanted) {
  static constexpr std::string_view kNumberCharacters = "+-.0123456789eE";
  cursor_ = at;
  const std::string_view rest(at, std::min<size_t>(static_cast<size_t>(end_ - at), 40));
  const std::string_view text = rest.substr(0, rest.find_first_not_of(kNumberCharacters));
  if (text.empty()) return Expected(wanted);
  if (fault != internal::kRange) return Fail(at, StrCat("expected ", wanted, ", found ", text));
  return Fail(at, StrCat(text, " is out of range: expected ", wanted), StatusCode::kOutOfRange);
}

template <typename T>
Result<T> JsonReader::ReadNumber() {
  cursor_ = SkipSpace(cursor_, end_);
  T value{};
  Fault fault = internal::kNone;
  const char* const last = internal::ParseLeaf(cursor_, end_, &value, &fault);
  if (last == nullptr) return NumberFault(cursor_, fault, internal::Wanted<T>());
  cursor_ = last;
  return value;
}

Result<int64_t> JsonReader::ReadInt64() { return ReadNumber<int64_t>(); }
Result<uint64_t> JsonReader::ReadUint64() { return ReadNumber<uint64_t>(); }
Result<double> JsonReader::ReadDouble() { return ReadNumber<double>(); }
Result<double> JsonReader::ReadDouble(std::string_view* text) {
  cursor_ = SkipSpace(cursor_, end_);
  const char* const begin = cursor_;
  Result<double> value = ReadDouble();
  *text = {begin, static_cast<size_t>(cursor_ - begin)};
  return value;
}
Result<float> JsonReader::ReadFloat() { return ReadNumber<float>(); }

Result<std::string_view> JsonReader::ReadNumberText() {
  cursor_ = SkipSpace(cursor_, end_);
  const char* const begin = cursor_;
  internal::Decimal decimal;
  const char* last = internal::ScanDecimal(begin, end_, &decimal);
  if (last == nullptr) {
    double special;
    last = internal::ScanSpecial(begin, end_, &special);
  }
  if (last == nullptr) return Expected("a number");
  cursor_ = last;
  return std::string_view(begin, static_cast<size_t>(last - begin));
}

/// Walks one array of any nesting; `leaf(p)` reads the leaf at p and returns its end, or null after
/// having set `leaf.status`.
template <typename Leaf>
Status JsonReader::ReadLeaves(Leaf&& leaf) {
  const char* const end = end_;
  const char* p = SkipSpace(cursor_, end);
  cursor_ = p;
  if (p == end || *p != '[') return Expected("an array");
  const int room = depth_limit_ - depth_;
  int depth = 0;
  for (;;) {
    // Here stands a value.
    if (p != end && *p == '[') {
      if (++depth > room) return TooDeep(p);
      p = SkipSpace(p + 1, end);
      if (p == end || *p != ']') continue;
    } else {
      p = leaf(p);
      if (p == nullptr) return std::move(leaf.status);
    }
    // Here a value, or an opening bracket before its closing one, has passed.
    for (;;) {
      p = SkipSpace(p, end);
      if (p == end || (*p != ',' && *p != ']')) {
        cursor_ = p;
        return Expected("',' or ']' after an element");
      }
      const char c = *p++;
      if (c == ',') break;
      if (--depth == 0) {
        cursor_ = p;
        return OkStatus();
      }
    }
    p = SkipSpace(p, end);
  }
}

template <typename T>
Status JsonReader::ReadNumberArray(T* out, size_t count) {
  struct {
    JsonReader* reader;
    T* next;
    T* last;
    size_t count;
    Status status;

    [[gnu::always_inline]] const char* operator()(const char* p) {
      if (next == last) [[unlikely]] {
        status = reader->Fail(p, StrCat("the array has more than the expected ", count, " elements"));
        return nullptr;
      }
      Fault fault = internal::kNone;
      const char* const past = internal::ParseLeaf(p, reader->end_, next, &fault);
      if (past == nullptr) [[unlikely]] {
        status = reader->NumberFault(p, fault, internal::Wanted<T>());
      }
      ++next;
      return past;
    }
  } leaf{this, out, out + count, count, OkStatus()};
  STOKER_RETURN_IF_ERROR(ReadLeaves(leaf));
  if (leaf.next != leaf.last) {
    return Fail(cursor_, StrCat("the array has ", leaf.next - out, " elements, expected ", count));
  }
  return OkStatus();
}

Status JsonReader::ReadNumbers(float* out, size_t count) { return ReadNumberArray(out, count); }
Status JsonReader::ReadNumbers(double* out, size_t count) { return ReadNumberArray(out, count); }
Status JsonReader::ReadNumbers(int64_t* out, size_t count) { return ReadNumberArray(out, count); }
Status JsonReader::ReadNumbers(uint64_t* out, size_t count) { return ReadNumberArray(out, count); }
Status JsonReader::ReadNumbers(int32_t* out, size_t count) { return ReadNumberArray(out, count); }
Status JsonReader::ReadNumbers(uint32_t* out, size_t count) { return ReadNumberArray(out, count); }
Status JsonReader::ReadNumbers(int16_t* out, size_t count) { return ReadNumberArray(out, count); }
Status JsonReader::ReadNumbers(uint16_t* out, size_t count) { return ReadNumberArray(out, count); }
Status JsonReader::ReadNumbers(int8_t* out, size_t count) { return ReadNumberArray(out, count); }
Status JsonReader::ReadNumbers(uint8_t* out, size_t count) { return ReadNumberArray(out, count); }
Status JsonReader::ReadNumbers(bool* out, size_t count) { return ReadNumberArray(out, count); }

Status JsonReader::ReadStrings(const std::function<Status(std::string_view)>& visit) {
  struct {
    JsonReader* reader;
    const std::function<Status(std::string_view)>& visit;
    Status status;

    const char* operator()(const char* p) {
      reader->cursor_ = p;
      const Result<std::string_view> text = reader->ReadString();
      status = text.ok() ? visit(*text) : text.status();
      return status.ok() ? reader->cursor_ : nullptr;
    }
  } leaf{this, visit, OkStatus()};
  return ReadLeaves(leaf);
}

}  // namespace stoker::base
