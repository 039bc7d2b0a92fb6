#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace stoker::base {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011):
/// four random words that depend on counter and key alone, so that any place of any stream can be
/// computed without the ones before. Not for secrets. Pure.
PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key);

/// A stream of random numbers, the same on every machine for the same seed and stream number. Fits
/// the standard library's distributions, but those differ between libraries; the ones here do not.
/// A value type (copying it forks nothing: both copies go on alike). Not thread-safe.
class Rng {
 public:
  using result_type = uint32_t;

  /// Streams of one seed are independent of each other.
  explicit Rng(uint64_t seed, uint64_t stream = 0);

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() { return Next32(); }

  uint32_t Next32();
  uint64_t Next64();
  /// Uniform in [0, bound), without bias; bound must not be 0.
  uint64_t Below(uint64_t bound);
  /// Uniform in [0, 1), 53 random bits.
  double Uniform();
  /// Exponentially distributed with this mean: gaps between arrivals of a Poisson process.
  double Exponential(double mean);

 private:
  PhiloxKey key_;
  PhiloxCounter counter_;
  PhiloxCounter block_{};
  uint32_t used_ = 4;  // words of block_ handed out
};

/// A seed that nobody can foresee, from the operating system. Thread-safe.
uint64_t EntropySeed();

}  // namespace stoker::base
