#include "core/io/hash.h"

#include <gtest/gtest.h>

namespace whisker {
namespace {

// Expected values from the reference implementation (Python's xxhash 3.5, xxh64 with seed 0).
TEST(Hash64, MatchesTheReferenceHoweverTheStreamIsCut) {
  std::string bytes31, bytes1000;
  for (int i = 0; i < 31; ++i) bytes31 += static_cast<char>(i);
  for (int i = 0; i < 1000; ++i) bytes1000 += static_cast<char>(i % 251);
  EXPECT_EQ(hash64(""), 0xef46db3751d8e999u);
  EXPECT_EQ(hash64("abc"), 0x44bc2cf5ad770999u);
  EXPECT_EQ(hash64(bytes31), 0xc346d2b59b4d8ee1u);
  EXPECT_EQ(hash64(bytes1000), 0xf306f04aa88b54d3u);
  for (size_t cut = 1; cut < 100; ++cut) {
    Hash64 hash;
    for (size_t i = 0; i < bytes1000.size(); i += cut) {
      hash.update(std::string_view(bytes1000).substr(i, cut));
    }
    EXPECT_EQ(hash.value(), 0xf306f04aa88b54d3u) << cut;
    EXPECT_EQ(hash.hex(), "f306f04aa88b54d3");
  }
}

}  // namespace
}  // namespace whisker
