// XXH64: four lanes over 32-byte stripes, merged and mixed with the tail at the end.
#include "core/io/hash.h"

#include "core/work_progress.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace whisker {
namespace {

constexpr uint64_t prime1 = 0x9e3779b185ebca87;
constexpr uint64_t prime2 = 0xc2b2ae3d27d4eb4f;
constexpr uint64_t prime3 = 0x165667b19e3779f9;
constexpr uint64_t prime4 = 0x85ebca77c2b2ae63;
constexpr uint64_t prime5 = 0x27d4eb2f165667c5;

static_assert(std::endian::native == std::endian::little, "XXH64 reads little-endian words");

template <class T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

uint64_t round(uint64_t lane, uint64_t input) {
  return std::rotl(lane + input * prime2, 31) * prime1;
}

}  // namespace

Hash64::Hash64(uint64_t seed)
    : lanes_{seed + prime1 + prime2, seed + prime2, seed, seed - prime1}, seed_(seed) {}

void Hash64::consume_stripe(const std::byte* stripe) {
  for (size_t i = 0; i < 4; ++i) lanes_[i] = round(lanes_[i], load<uint64_t>(stripe + 8 * i));
}

void Hash64::update(std::span<const std::byte> bytes) {
  total_bytes_ += bytes.size();
  if (pending_bytes_ > 0) {
    const size_t taken = std::min(bytes.size(), pending_.size() - pending_bytes_);
    std::copy_n(bytes.begin(), taken, pending_.begin() + static_cast<ptrdiff_t>(pending_bytes_));
    pending_bytes_ += taken;
    bytes = bytes.subspan(taken);
    if (pending_bytes_ < pending_.size()) return;
    consume_stripe(pending_.data());
    pending_bytes_ = 0;
  }
  while (bytes.size() >= 32) {
    constexpr size_t mib = 1 << 20;  // of a file that is read meanwhile, page by page
    const size_t stripes = std::min(bytes.size(), mib) / 32;
    for (size_t i = 0; i < stripes; ++i) consume_stripe(bytes.data() + 32 * i);
    bytes = bytes.subspan(32 * stripes);
    if (stripes == mib / 32) count_progress();
  }
  std::copy(bytes.begin(), bytes.end(), pending_.begin());
  pending_bytes_ = bytes.size();
}

uint64_t Hash64::value() const {
  uint64_t h = seed_ + prime5;
  if (total_bytes_ >= 32) {
    h = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
        std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) h = (h ^ round(0, lane)) * prime1 + prime4;
  }
  h += total_bytes_;
  const std::byte* p = pending_.data();
  const std::byte* const end = p + pending_bytes_;
  for (; end - p >= 8; p += 8) {
    h = std::rotl(h ^ round(0, load<uint64_t>(p)), 27) * prime1 + prime4;
  }
  for (; end - p >= 4; p += 4) {
    h = std::rotl(h ^ (load<uint32_t>(p) * prime1), 23) * prime2 + prime3;
  }
  for (; p != end; ++p) {
    h = std::rotl(h ^ (std::to_integer<uint64_t>(*p) * prime5), 11) * prime1;
  }
  h = (h ^ (h >> 33)) * prime2;
  h = (h ^ (h >> 29)) * prime3;
  return h ^ (h >> 32);
}

std::string Hash64::hex() const {
  return fmt::format("{:016x}", value());
}

uint64_t hash64(std::string_view text) {
  Hash64 hash;
  hash.update(text);
  return hash.value();
}

}  // namespace whisker
