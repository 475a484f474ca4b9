// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011, section 4.3). A draw depends on (seed, stream, index) alone, so initial
// weights, masks, shuffles and augmentations are the same on every device, worker count and resume.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace whisker {

using PhiloxBlock = std::array<uint32_t, 4>;

/// Ten Philox rounds of `counter` under `key`.
constexpr PhiloxBlock philox(PhiloxBlock counter, uint64_t key) {
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

/// FNV-1a of a name: the stream of a layer or of a purpose ("shuffle", "augment").
constexpr uint64_t stream_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  return hash;
}

/// Four words for block `index` of (seed, stream).
constexpr PhiloxBlock philox_block(uint64_t seed, uint64_t stream, uint64_t index) {
  return philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                 static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                seed);
}

/// Uniform in [0, 1) with 24 bits.
constexpr float uniform_from(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

/// A sequential reader of one (seed, stream): for host-side draws of a few values.
class PhiloxStream {
 public:
  PhiloxStream(uint64_t seed, uint64_t stream, uint64_t first_block = 0)
      : seed_(seed), stream_(stream), block_(first_block) {}

  uint32_t next() {
    if (used_ == 4) {
      words_ = philox_block(seed_, stream_, block_++);
      used_ = 0;
    }
    return words_[used_++];
  }
  /// Uniform in [0, 1) with 53 bits.
  double uniform() {
    const uint64_t high = next() >> 5;
    const uint64_t low = next() >> 6;
    return static_cast<double>(high * 67108864u + low) * 0x1p-53;
  }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Standard normal by Box and Muller (1958).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }
  /// Uniform integer in [0, bound), unbiased (Lemire 2019, without the fast path). bound >= 1.
  uint32_t below(uint32_t bound) {
    const uint32_t threshold = (0u - bound) % bound;
    for (;;) {
      const uint64_t product = uint64_t{next()} * bound;
      if (static_cast<uint32_t>(product) >= threshold) return static_cast<uint32_t>(product >> 32);
    }
  }

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t block_;
  PhiloxBlock words_{};
  uint32_t used_ = 4;
};

}  // namespace whisker
