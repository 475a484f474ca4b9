// What ranks compare of a run: everything but what they may have of their own.
#include "train/ranks/same_run.h"

#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;

constexpr std::string_view preset_run = "model: small_resnet\ndata: {train: a, val: b}\n";

Facts facts_with(const std::string& assignment) {
  return facts_of_ranks(read_config_text(std::string(preset_run), "run", {assignment}));
}

std::string value_of(const Facts& facts, std::string_view name) {
  const auto found = std::ranges::find(facts, name, &Fact::name);
  return found == facts.end() ? "none" : found->value;
}

bool same(const Facts& a, const Facts& b) {
  return std::ranges::equal(a, b, [](const Fact& one, const Fact& other) {
    return one.name == other.name && one.value == other.value;
  });
}

TEST(SameRun, EveryKeyIsComparedButThoseOfARanksOwn) {
  const Facts facts = facts_with("seed=1");
  for (const ConfigKey& key : config_keys()) {
    if (key.path.starts_with("runtime.")) continue;
    EXPECT_TRUE(std::ranges::any_of(facts, [&](const Fact& fact) {
      return fact.name == key.path || fact.name.starts_with(key.path + ".") ||
             fact.name.starts_with(key.path + "[");
    })) << key.path;
  }
  EXPECT_EQ(value_of(facts, "seed"), "1");
  EXPECT_EQ(value_of(facts, "train.batch_size"), "32");
  EXPECT_EQ(value_of(facts, "data.workers"), "");
}

TEST(SameRun, PathsAndThePaceMayDiffer) {
  const Facts facts = facts_with("seed=1");  // the default
  for (const char* free : {"name=x", "runs=x", "device=cpu", "data.train=x", "data.val=x",
                           "data.test=x", "data.workers=3", "data.prefetch=9",
                           "data.cache_limit_mib=1", "runtime.threads=3", "runtime.graph=false"}) {
    EXPECT_TRUE(same(facts, facts_with(free))) << free;
  }
  for (const char* bound : {"seed=3", "optimizer.lr=0.5", "train.epochs=1", "data.image_size=96",
                            "data.cache=memory", "augment.horizontal_flip=true", "precision=bf16",
                            "train.log_every=3", "model=resnet18", "data.max_bad=0.5"}) {
    EXPECT_FALSE(same(facts, facts_with(bound))) << bound;
  }
}

TEST(SameRun, FilesAreToldByNameLabelSizeAndTheFirstOfAClassByContent) {
  const TemporaryFolder folder;
  for (const char* file : {"cat.bin", "dog.bin", "dog2.bin"}) {
    std::ofstream(folder.path() / file) << file;
  }
  const ImageFolder images{.root = folder.path(),
                           .classes = {"cat", "dog"},
                           .files = {{.path = "cat.bin", .label = 0, .bytes = 7},
                                     {.path = "dog.bin", .label = 1, .bytes = 7},
                                     {.path = "dog2.bin", .label = 1, .bytes = 8}},
                           .skipped = {}};
  const Facts facts = facts_of(images, "data.val");
  ASSERT_EQ(facts.size(), 5u);
  EXPECT_EQ(value_of(facts, "class 2 in data.val"), "dog");
  EXPECT_EQ(value_of(facts, "dog2.bin in data.val"), "dog, 8 bytes");
  const Facts contents = first_contents(images);
  ASSERT_EQ(contents.size(), 2u);
  EXPECT_THAT(value_of(contents, "dog.bin"), HasSubstr("7 bytes, hash "));
  EXPECT_NE(value_of(contents, "dog.bin"), value_of(contents, "cat.bin"));
  const std::vector<std::string> paths = {folder.path().string(),
                                          (folder.path() / "none").string()};
  const Facts files = facts_of_files(paths, "DATA");
  ASSERT_EQ(files.size(), 4u);
  EXPECT_EQ(files[0].name, "cat.bin in DATA 1");
  EXPECT_EQ(files[3].name, "DATA 2");
  EXPECT_EQ(files[3].value, "missing");
}

}  // namespace
}  // namespace whisker::test
