#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

/// Powers of ten for reading and writing floating-point text. Each is computed by the compiler.
namespace stoker::base::internal {

using Wide = unsigned __int128;

/// 10^e as (high · 2^64 + low) · 2^exponent, cut to 128 bits with the highest set. Exact for e ≥ 0,
/// below the true value by less than one unit of `low` for e < 0.
struct PowerOfTen {
  uint64_t high;
  uint64_t low;
  int exponent;
};

inline constexpr int kPowerMin = -54;  // 5^54 is the last that leaves the long division a spare bit
inline constexpr int kPowerMax = 54;

constexpr int BitCount(Wide value) {
  const auto high = static_cast<uint64_t>(value >> 64);
  return high != 0 ? 128 - std::countl_zero(high) : 64 - std::countl_zero(static_cast<uint64_t>(value));
}

constexpr PowerOfTen MakePowerOfTen(int e) {
  Wide five = 1;
  for (int i = 0; i < (e < 0 ? -e : e); ++i) five *= 5;
  const int bits = BitCount(five);
  Wide value = five << (128 - bits);
  int exponent = e - (128 - bits);
  if (e < 0) {
    // 2^(127 + bits) / five, bit by bit: the remainder stays below five.
    Wide rest = Wide{1} << (bits - 1);
    value = 0;
    for (int i = 0; i < 128; ++i) {
      rest <<= 1;
      value <<= 1;
      if (rest >= five) {
        rest -= five;
        value |= 1;
      }
    }
    exponent = e - 127 - bits;
  }
  return {static_cast<uint64_t>(value >> 64), static_cast<uint64_t>(value), exponent};
}

inline constexpr auto kPowersOfTen = [] {
  std::array<PowerOfTen, kPowerMax - kPowerMin + 1> table{};
  for (int e = kPowerMin; e <= kPowerMax; ++e) table[static_cast<size_t>(e - kPowerMin)] = MakePowerOfTen(e);
  return table;
}();

/// For kPowerMin ≤ e ≤ kPowerMax.
inline const PowerOfTen& Power(int e) { return kPowersOfTen[static_cast<size_t>(e - kPowerMin)]; }

/// 10^0 … 10^19 as integers.
inline constexpr auto kWholePowers = [] {
  std::array<uint64_t, 20> table{1};
  for (size_t i = 1; i < table.size(); ++i) table[i] = table[i - 1] * 10;
  return table;
}();

}  // namespace stoker::base::internal
