#include "core/communicator/rank_agreement.h"

#include "tests/core/communicator/rank_threads.h"
#include "tests/support/error_of.h"

#include <array>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// What three ranks with these facts are told: all the same.
std::string verdict(const std::array<Facts, 3>& facts) {
  std::array<std::string, 3> told;
  in_ranks(3, [&](RankGroup& group) {
    const auto own = static_cast<size_t>(group.rank());
    told[own] = error_of([&] {
      require_same(group, facts[own],
                   {.kind = ErrorKind::data, .what = "list of inputs", .remedy = "Copy it."});
    });
    group.barrier();  // they are still in step
  });
  EXPECT_EQ(std::set<std::string>(told.begin(), told.end()).size(), 1u);
  return told[0];
}

const Facts files = {{"a.png", "cat, 10 bytes"}, {"b.png", "dog, 10 bytes"}, {"c.png", "cat, 9"}};

TEST(RankAgreement, RanksWithTheSameFactsGoOn) {
  EXPECT_EQ(verdict({files, files, files}), "");
  EXPECT_EQ(verdict({Facts(), Facts(), Facts()}), "");
}

TEST(RankAgreement, NamesTheRankAndTheFirstDifference) {
  Facts other = files;
  other[1].value = "cat, 10 bytes";
  EXPECT_THAT(
      verdict({files, files, other}),
      AllOf(HasSubstr("3: rank 2 on "), HasSubstr(" has another list of inputs than rank 0: "),
            HasSubstr("b.png is 'cat, 10 bytes', on rank 0 'dog, 10 bytes'."),
            HasSubstr("device, paths, workers, prefetch, cache limits and runtime.*"),
            HasSubstr("Copy it.")));
  const Facts fewer = {files[0], files[2]};
  EXPECT_THAT(verdict({files, fewer, files}),
              AllOf(HasSubstr("rank 1 on "),
                    HasSubstr("b.png is missing, on rank 0 it is 'dog, 10 bytes'")));
  EXPECT_THAT(verdict({fewer, files, files}),
              AllOf(HasSubstr("rank 1 on "), HasSubstr(", as 1 more, has"),
                    HasSubstr("b.png is 'dog, 10 bytes', on rank 0 it is missing")));
  const Facts shorter = {files[0], files[1]};
  EXPECT_THAT(verdict({files, shorter, files}), HasSubstr("c.png is missing, on rank 0"));
  // A class folder's file in another's: nothing is missing, the labels differ.
  const Facts moved = {files[0], {"dog/b.png", "dog, 10 bytes"}, files[2]};
  EXPECT_THAT(
      verdict({files, moved, files}),
      HasSubstr("dog/b.png ('dog, 10 bytes') is in place of rank 0's b.png ('dog, 10 bytes')"));
  const Facts twice = {files[0], files[0]}, once = {files[0]};
  EXPECT_THAT(verdict({twice, once, twice}), HasSubstr("a.png is missing, on rank 0"));
  const Facts turned = {files[1], files[0], files[2]};
  EXPECT_THAT(verdict({files, files, turned}), HasSubstr("b.png comes in another order"));
}

TEST(RankAgreement, ForeignTextKeepsToItsFact) {
  const Facts one = {{"a\tb\nc", "x"}}, other = {{"a", "b"}, {"c", "x"}};
  EXPECT_THAT(verdict({one, other, one}),
              HasSubstr("a ('b') is in place of rank 0's a\\x09b\\x0ac ('x')"));
}

TEST(RankAgreement, AHashThatDiffersAloneIsToldToo) {
  std::array<std::string, 2> told;
  in_ranks(2, [&](RankGroup& group) {
    told[static_cast<size_t>(group.rank())] = error_of([&] {
      require_same(group, static_cast<uint64_t>(group.rank()), [] { return files; },
                   {.kind = ErrorKind::checkpoint, .what = "network"});
    });
  });
  EXPECT_EQ(told[0], told[1]);
  EXPECT_THAT(told[0], HasSubstr("4: rank 1 on "));
  EXPECT_THAT(told[0], HasSubstr("its contents differ"));
}

TEST(RankAgreement, TextsArePackedWhole) {
  const std::vector<std::string> texts = {"", std::string("a\0b", 3), "c"};
  EXPECT_EQ(unpack_texts(pack_texts(texts)), texts);
}

}  // namespace
}  // namespace whisker::test
