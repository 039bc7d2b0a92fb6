#include "shortest_decimal.h"

#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "powers_of_ten.h"

// The algorithm is R. Giulietti's "The Schubfach way to render doubles" (2020): the interval of
// decimals that round to the value is scaled by a power of ten so that at most one short candidate of
// each length needs to be looked at.

namespace stoker::base::internal {
namespace {

constexpr uint64_t kOnes = 0x0101010101010101u;

/// digits · 10^exponent
struct Shortest {
  uint64_t digits;
  int exponent;
};

struct FloatFormat {
  using Bits = uint32_t;
  static constexpr int kMantissa = 23;
  static constexpr int kBias = 150;  // value = significand · 2^(stored − kBias)
};

struct DoubleFormat {
  using Bits = uint64_t;
  static constexpr int kMantissa = 52;
  static constexpr int kBias = 1075;
};

// ⌊log10(2^e)⌋, ⌊log10(¾·2^e)⌋ and ⌊log2(10^e)⌋, exact for |e| ≤ 1200.
constexpr int FloorLog10Of2(int e) { return (e * 1262611) >> 22; }
constexpr int FloorLog10Of3Quarters2(int e) { return (e * 1262611 - 524031) >> 22; }
constexpr int FloorLog2Of10(int e) { return (e * 1741647) >> 19; }

/// ⌊power · scaled⌋ in units of the power's last bit but 64 (128 for doubles), with the lowest bit set
/// when anything was cut off, so that comparisons with it come out as with the exact product. The
/// power is rounded up, as the proof of the method wants it.
uint64_t RoundToOdd(const PowerOfTen& power, bool exact, uint32_t scaled, FloatFormat) {
  const uint64_t significand = power.high + (exact && power.low == 0 ? 0 : 1);
  const Wide product = Wide{significand} * scaled;
  const auto cut = static_cast<uint32_t>(static_cast<uint64_t>(product) >> 32);
  return static_cast<uint64_t>(product >> 64) | (cut > 1 ? 1 : 0);
}

uint64_t RoundToOdd(const PowerOfTen& power, bool exact, uint64_t scaled, DoubleFormat) {
  const Wide significand = (Wide{power.high} << 64 | power.low) + (exact ? 0 : 1);
  const Wide low = Wide{static_cast<uint64_t>(significand)} * scaled;
  const Wide high =
      Wide{static_cast<uint64_t>(significand >> 64)} * scaled + static_cast<uint64_t>(low >> 64);
  return static_cast<uint64_t>(high >> 64) | (static_cast<uint64_t>(high) > 1 ? 1 : 0);
}

/// For a positive finite value. False when the power of ten is beyond the table.
template <typename Format>
inline bool FindShortest(typename Format::Bits bits, Format format, Shortest* out) {
  using Bits = typename Format::Bits;
  constexpr Bits kHidden = Bits{1} << Format::kMantissa;
  const int stored = static_cast<int>(bits >> Format::kMantissa);
  const Bits fraction = bits & (kHidden - 1);
  const Bits c = stored != 0 ? fraction | kHidden : fraction;
  const int q = (stored != 0 ? stored : 1) - Format::kBias;

  // Below a power of two the neighbour is only half as far away.
  const bool close_below = fraction == 0 && stored > 1;
  const uint64_t odd = c & 1;
  const int k = close_below ? FloorLog10Of3Quarters2(q) : FloorLog10Of2(q);
  if (-k < kPowerMin || -k > kPowerMax) return false;
  const int shift = q + FloorLog2Of10(-k) + 1;
  const PowerOfTen& power = Power(-k);
  const bool exact = k <= 0;
  const Bits middle = 4 * c;
  const uint64_t low =
      RoundToOdd(power, exact, static_cast<Bits>((middle - 2 + (close_below ? 1 : 0)) << shift), format) +
      odd;
  const uint64_t value = RoundToOdd(power, exact, static_cast<Bits>(middle << shift), format);
  const uint64_t high = RoundToOdd(power, exact, static_cast<Bits>((middle + 2) << shift), format) - odd;

  const uint64_t s = value / 4;
  if (s >= 10) {
    const uint64_t tens = s / 10;
    const bool below = low <= 40 * tens;
    const bool above = 40 * tens + 40 <= high;
    if (below != above) {
      *out = {tens + (above ? 1 : 0), k + 1};
      return true;
    }
  }
  const bool below = low <= 4 * s;
  const bool above = 4 * s + 4 <= high;
  const uint64_t half = 4 * s + 2;
  const bool up = below != above ? above : value > half || (value == half && (s & 1) != 0);
  *out = {s + (up ? 1 : 0), k};
  return true;
}

/// The eight decimal digits of a number below 10^8, one a byte, the first at the lowest address.
uint64_t EightDigits(uint32_t value) {
  const uint64_t fours = value / 10000 | static_cast<uint64_t>(value % 10000) << 32;
  const uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007F0000007Fu;  // ÷100, exact below 10^4
  const uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
  const uint64_t tens = (twos * 103 >> 10) & 0x000F000F000F000Fu;  // ÷10, exact below 100
  return tens | (twos - tens * 10) << 8;
}

int DigitCount(uint64_t value) {
  const int guess = (64 - std::countl_zero(value)) * 1233 >> 12;
  return guess + (value >= kWholePowers[static_cast<size_t>(guess)] ? 1 : 0);
}

/// A decimal spelled out: the first digit, and sixteen more as text padded with '0' (the next digit in
/// the lowest byte), kept in registers because reading back bytes just stored stalls.
struct Spelling {
  char first;
  int count;  // digits without the zeros at the end
  Wide tail;
};

Spelling Spell(uint64_t digits, int count, FloatFormat) {
  digits *= kWholePowers[static_cast<size_t>(9 - count)];
  const uint64_t tail = EightDigits(static_cast<uint32_t>(digits % 100'000'000));
  return {.first = static_cast<char>('0' + digits / 100'000'000),
          .count = tail == 0 ? 1 : 9 - (std::countl_zero(tail) >> 3),
          .tail = Wide{kOnes * '0'} << 64 | tail | kOnes * '0'};
}

Spelling Spell(uint64_t digits, int count, DoubleFormat) {
  digits *= kWholePowers[static_cast<size_t>(17 - count)];
  const uint64_t rest = digits % 10'000'000'000'000'000u;
  const uint64_t middle = EightDigits(static_cast<uint32_t>(rest / 100'000'000));
  const uint64_t tail = EightDigits(static_cast<uint32_t>(rest % 100'000'000));
  return {.first = static_cast<char>('0' + digits / 10'000'000'000'000'000u),
          .count = tail != 0     ? 17 - (std::countl_zero(tail) >> 3)
                   : middle != 0 ? 9 - (std::countl_zero(middle) >> 3)
                                 : 1,
          .tail = Wide{tail | kOnes * '0'} << 64 | middle | kOnes * '0'};
}

/// Lays out the digits, the first worth 10^exponent.
char* LayOut(char* at, const Spelling& digits, int exponent) {
  if (exponent >= 0 && exponent < 16) {
    at[0] = digits.first;
    std::memcpy(at + 1, &digits.tail, 16);
    const Wide fraction = digits.tail >> (8 * exponent);
    at[exponent + 1] = '.';
    std::memcpy(at + exponent + 2, &fraction, 16);
    return at + 1 + (digits.count > exponent + 2 ? digits.count : exponent + 2);
  }
  if (exponent < 0 && exponent >= -4) {
    static constexpr char kZeros[8] = {'0', '.', '0', '0', '0', '0', '0', '0'};
    std::memcpy(at, kZeros, 8);
    at += 1 - exponent;
    at[0] = digits.first;
    std::memcpy(at + 1, &digits.tail, 16);
    return at + digits.count;
  }
  at[0] = digits.first;
  at[1] = '.';
  std::memcpy(at + 2, &digits.tail, 16);
  at += digits.count == 1 ? 1 : digits.count + 1;
  *at++ = 'e';
  *at++ = exponent < 0 ? '-' : '+';
  const int size = exponent < 0 ? -exponent : exponent;
  if (size >= 100) *at++ = static_cast<char>('0' + size / 100);
  *at++ = static_cast<char>('0' + size / 10 % 10);
  *at++ = static_cast<char>('0' + size % 10);
  return at;
}

char* Put(char* at, std::string_view text) {
  std::memcpy(at, text.data(), text.size());
  return at + text.size();
}

/// A whole number below 2^24, as pixels and counts are.
char* PutWhole(char* at, uint32_t value) {
  at = std::to_chars(at, at + kNumberSize, value).ptr;
  at[0] = '.';
  at[1] = '0';
  return at + 2;
}

template <typename Format, typename T>
char* PutFinite(char* at, T magnitude) {
  using Bits = typename Format::Bits;
  if (magnitude < 0x1p24) {
    const auto whole = static_cast<int32_t>(magnitude);
    if (static_cast<T>(whole) == magnitude) return PutWhole(at, static_cast<uint32_t>(whole));
  }
  const auto bits = std::bit_cast<Bits>(magnitude);
  Shortest shortest;
  if (std::is_same_v<T, float> && bits == static_cast<Bits>(0x15AE43FD)) {
    // The one float whose shortest text, 7.038531e-26, a double rounds onto the edge to its neighbour.
    shortest = {70385307, -33};
  } else if (!FindShortest(bits, Format(), &shortest)) {
    return std::to_chars(at, at + kNumberSize, magnitude, std::chars_format::scientific).ptr;
  }
  const int count = DigitCount(shortest.digits);
  return LayOut(at, Spell(shortest.digits, count, Format()), shortest.exponent + count - 1);
}

template <typename Format, typename T>
char* PutAny(char* at, T value) {
  using Bits = typename Format::Bits;
  constexpr Bits kSign = Bits{1} << (sizeof(T) * 8 - 1);
  constexpr Bits kInfinity =
      (kSign >> Format::kMantissa << Format::kMantissa) - (Bits{1} << Format::kMantissa);
  const auto bits = std::bit_cast<Bits>(value);
  const Bits magnitude = bits & ~kSign;
  if (magnitude > kInfinity) return Put(at, "NaN");
  if (bits & kSign) *at++ = '-';
  if (magnitude == kInfinity) return Put(at, "Infinity");
  return PutFinite<Format>(at, std::bit_cast<T>(magnitude));
}

}  // namespace

char* PutShortest(char* at, float value) { return PutAny<FloatFormat>(at, value); }
char* PutShortest(char* at, double value) { return PutAny<DoubleFormat>(at, value); }

}  // namespace stoker::base::internal
