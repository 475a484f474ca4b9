// XXH64, the 64-bit hash for fingerprints of files and datasets. It detects damage and change, but
// not deliberate forgery. Source: "xxHash fast digest algorithm", version 0.1.1 of its
// specification, section XXH64.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace whisker {

/// XXH64 of a stream of bytes; the result does not depend on how the stream is cut into updates.
class Hash64 {
 public:
  explicit Hash64(uint64_t seed = 0);
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  /// Hash of everything so far; more updates may follow.
  uint64_t value() const;
  /// value() as 16 lower-case hexadecimal digits.
  std::string hex() const;

 private:
  void consume_stripe(const std::byte* stripe);

  std::array<uint64_t, 4> lanes_;
  std::array<std::byte, 32> pending_{};
  size_t pending_bytes_ = 0;
  uint64_t total_bytes_ = 0;
  uint64_t seed_;
};

/// XXH64 with seed 0 of one block.
uint64_t hash64(std::string_view text);

}  // namespace whisker
