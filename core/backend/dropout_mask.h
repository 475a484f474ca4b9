// Which elements a dropout keeps: integers only, so that every device draws the same mask.
// Element i uses word i % 4 of the Philox block with counter (i / 4, stream of this step) under the
// key's seed, and stays when that word is at least round(rate 2^32).
#pragma once

#include "core/backend/geometry.h"
#include "core/tensor/philox.h"

#include <cstdint>

namespace whisker {

/// The stream of one step: the layer's stream exclusive-or SplitMix64's finaliser of the step
/// (Steele, Lea and Flood 2014), so that step 0 is the stream itself and steps never overlap.
constexpr uint64_t dropout_stream(const RandomKey& key) {
  uint64_t z = key.step + (key.offset ? static_cast<uint64_t>(*key.offset) : 0);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return key.stream ^ (z ^ (z >> 31));
}

/// The key with its offset added to the step: for loops on the host.
constexpr RandomKey resolved(RandomKey key) {
  if (key.offset) key.step += static_cast<uint64_t>(*key.offset);
  key.offset = nullptr;
  return key;
}

/// Words below this drop; in [0, 2^32]. `rate` in [0, 1].
constexpr uint64_t dropout_threshold(double rate) {
  return static_cast<uint64_t>(rate * 0x1p32 + 0.5);
}

/// The four words of elements 4 block ... 4 block + 3.
constexpr PhiloxBlock dropout_words(const RandomKey& key, uint64_t block) {
  return philox_block(key.seed, dropout_stream(key), block);
}

constexpr bool dropout_keeps(const RandomKey& key, uint64_t element, uint64_t threshold) {
  return dropout_words(key, element / 4)[element % 4] >= threshold;
}

}  // namespace whisker
