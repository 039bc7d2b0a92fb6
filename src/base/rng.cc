#include <stoker/base/rng.h>

#include <sys/random.h>

#include <cmath>

#include <stoker/base/check.h>

namespace stoker::base {

PhiloxCounter Philox4x32(PhiloxCounter c, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return c;
}

Rng::Rng(uint64_t seed, uint64_t stream)
    : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
      counter_{0, 0, static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)} {}

uint32_t Rng::Next32() {
  if (used_ == block_.size()) {
    block_ = Philox4x32(counter_, key_);
    used_ = 0;
    if (++counter_[0] == 0) ++counter_[1];
  }
  return block_[used_++];
}

uint64_t Rng::Next64() {
  const uint64_t low = Next32();
  return static_cast<uint64_t>(Next32()) << 32 | low;
}

uint64_t Rng::Below(uint64_t bound) {
  CHECK(bound != 0);
  // The 2^64 mod bound lowest values would make small results likelier: draw again on those.
  const uint64_t unfair = (0 - bound) % bound;
  for (;;) {
    const uint64_t value = Next64();
    if (value >= unfair) return value % bound;
  }
}

double Rng::Uniform() { return static_cast<double>(Next64() >> 11) * 0x1p-53; }

double Rng::Exponential(double mean) { return -mean * std::log1p(-Uniform()); }

uint64_t EntropySeed() {
  uint64_t seed = 0;
  // Up to 256 bytes the kernel delivers all or nothing; nothing only before its pool is ready.
  while (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) {
  }
  return seed;
}

}  // namespace stoker::base
