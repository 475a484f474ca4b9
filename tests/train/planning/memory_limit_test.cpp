// runtime.memory and train.batch_size: auto, on the CPU's allocator.
#include "train/config/memory_limit.h"

#include "core/backend/backend.h"
#include "core/cpu/cpu_backend.h"
#include "tests/support/error_of.h"
#include "tests/support/tiny_sequences.h"
#include "tests/support/tiny_training.h"
#include "train/planning/batch_size_search.h"
#include "train/planning/dry_run.h"

#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;

constexpr int64_t mebi = int64_t{1} << 20;

// Experiments with a limit leave it behind, as a process has one run.
class MemoryLimitTest : public testing::Test {
 protected:
  void TearDown() override { backend_of(cpu_device).set_memory_options({}); }
};

using MemoryLimit = MemoryLimitTest;
using BatchSizeAuto = MemoryLimitTest;

TEST_F(MemoryLimit, IsBytesOrAShare) {
  EXPECT_EQ(memory_limit("", 1000), 0);
  EXPECT_EQ(memory_limit("2GiB", 1000), 2048 * mebi);
  EXPECT_EQ(memory_limit("0.25", 1000), 250);
  EXPECT_EQ(memory_limit("1", 1000), 1000) << "all of it";
  EXPECT_EQ(memory_limit("4096", 1000), 4096);
  for (const char* bad : {"0", "0GiB", "-1", "half", "50 %", "2 gib"}) {
    EXPECT_EQ(memory_limit(bad, 1000), std::nullopt) << bad;
  }
}

TEST_F(MemoryLimit, HoldsForARunOnTheCpu) {
  const StripeFolder data;
  const auto config = [&](const char* limit) {
    return data.config({fmt::format("runtime.memory.limit={}", limit), "data.image_size=64",
                        "train.batch_size=40"});
  };
  EXPECT_THAT(dry_run(config("512MiB")), HasSubstr("memory      peak"));
  try {
    dry_run(config("4MiB"));
    ADD_FAILURE() << "40 images fit into 4 MiB";
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(), HasSubstr("limit 4.0 MiB"));
    EXPECT_EQ(error.capacity_bytes(), 4 * mebi);
  }
}

TEST_F(MemoryLimit, ABadOneIsRefusedWhereItStands) {
  EXPECT_THAT(
      message_of(
          ErrorKind::usage,
          [] { read_config_text("model: chollet\nruntime: {memory: {limit: lots}}\n", "c.yaml"); }),
      HasSubstr("c.yaml:2:27: runtime.memory.limit: expected bytes such"));
}

// The largest multiple of 8 that fits, or at least a sixteenth below the first that does not.
TEST_F(BatchSizeAuto, FindsTheLargestBatchWithinTheLimit) {
  const StripeFolder data(2, 100, 5);
  const auto config = [&](const std::string& batch, int limit_mib) {
    return data.config({"train.batch_size=" + batch, "data.image_size=128", "deterministic=true",
                        fmt::format("runtime.memory.limit={}MiB", limit_mib)});
  };
  for (const int limit_mib : {100, 200}) {
    Config settled = config("auto", limit_mib);
    EXPECT_EQ(settled.train.batch_size, 0);
    const std::string note = settle_batch_size(settled);
    const int64_t found = settled.train.batch_size;
    fmt::print("{} MiB: batches of {}\n", limit_mib, found);
    ASSERT_GT(found, 1);
    ASSERT_LT(found, 200);
    EXPECT_EQ(note, fmt::format("train.batch_size: auto is {}", found));
    EXPECT_EQ(settle_batch_size(settled), "");
    EXPECT_EQ(settled.train.batch_size, found);
    EXPECT_NO_THROW(TestRun(config(fmt::format("{}", found), limit_mib)).train());
    // Trained, not only tried: a GPU's captured step takes memory of its own.
    const int64_t larger = found + found / 8 + 9;
    EXPECT_THROW(TestRun(config(fmt::format("{}", larger), limit_mib)).train(), OutOfMemory)
        << larger;
  }
}

// Timing algorithms needs memory that the search did not measure: a run skips it when memory is
// short.
TEST_F(BatchSizeAuto, TrainsByAlgorithmsThatFit) {
  const StripeFolder data(2, 100, 5);
  const auto config = [&](const std::string& batch, const char* deterministic) {
    return data.config({"train.batch_size=" + batch, "data.image_size=12", "train.epochs=1",
                        "model.layers=[{conv2d: {filters: 128, kernel: 3, activation: relu}}, "
                        "{conv2d: {filters: 128, kernel: 3, padding: same}}]",
                        "model.head=[global_avg_pool2d, {dense: {units: classes}}]",
                        "runtime.memory.limit=24MiB",
                        std::string("deterministic=") + deterministic});
  };
  const int64_t found = find_batch_size(config("auto", "false"));
  fmt::print("24 MiB: batches of {}\n", found);
  ASSERT_GT(found, 1);
  ASSERT_LT(found, 200);
  set_cpu_options({.winograd = false});  // and with it all choices of algorithms
  set_cpu_options({});
  EXPECT_NO_THROW(TestRun(config(fmt::format("{}", found), "false")).train());
  const std::string larger = fmt::format("{}", found + found / 8 + 9);
  EXPECT_THROW(TestRun(config(larger, "true")).train(), OutOfMemory) << larger;
}

// Validation may need more than training: here of images six times as high and wide.
TEST_F(BatchSizeAuto, FitsValidationToo) {
  const StripeFolder data(2, 100, 100);
  const auto config = [&](const std::string& batch, const char* train_image_size) {
    return data.config({"train.batch_size=" + batch, "data.image_size=96", "train.epochs=1",
                        std::string("data.train_image_size=") + train_image_size, "ema.decay=0.9",
                        "deterministic=true", "runtime.memory.limit=16MiB"});
  };
  const int64_t found = find_batch_size(config("auto", "16"));
  fmt::print("16 MiB: batches of {}\n", found);
  EXPECT_GT(found, 1);
  EXPECT_NO_THROW(TestRun(config(fmt::format("{}", found), "16")).train());
  const std::string larger = fmt::format("{}", found + found / 8 + 9);
  EXPECT_NO_THROW(dry_run(config(larger, "16"))) << "training is what limits";
  EXPECT_THROW(TestRun(config(larger, "16")).train(), OutOfMemory);
}

// The first batch of an epoch may be one of short texts.
TEST_F(BatchSizeAuto, FitsTheLongestSequences) {
  const TemporaryFolder folder;
  std::string texts[2];
  for (size_t i = 0; i < 800; ++i) {
    texts[i % 2] += std::string(i % 8 < 6 ? 4 : 80, i % 2 == 0 ? 'a' : 'b') + "\n";
  }
  folder.write("words/a.txt", texts[0]);
  folder.write("words/b.txt", texts[1]);
  for (const int seed : {1, 2, 3, 4}) {
    const auto config = [&](const std::string& batch) {
      return text_config(folder, {"train.batch_size=" + batch, fmt::format("seed={}", seed),
                                  "train.epochs=1", "runtime.memory.limit=2MiB"});
    };
    const int64_t found = find_batch_size(config("auto"));
    fmt::print("seed {}: batches of {}\n", seed, found);
    EXPECT_GT(found, 1);
    EXPECT_LT(found, 160) << "all of the long ones are in one batch";
    EXPECT_NO_THROW(TestRun(config(fmt::format("{}", found))).train());
  }
}

// Of text and series as well, whose validation has figures of its own kind. More rows than 65 would
// cut the 4201 characters into sequences of fewer than 64 steps; the series has 48 windows.
TEST_F(BatchSizeAuto, IsFoundForSequences) {
  const TemporaryFolder folder;
  const Config text =
      language_config(folder, {"train.batch_size=auto", "train.epochs=1", "data.text.steps=64"});
  const Config series = series_config(folder, {"train.batch_size=auto", "train.epochs=1"});
  std::pair<Config, int64_t> cases[] = {{text, 64}, {series, 48}};
  for (auto& [config, most] : cases) {
    settle_batch_size(config);
    EXPECT_EQ(config.train.batch_size, most) << config.name;
    EXPECT_NO_THROW(TestRun(config).train());
  }
}

// Too short for the rows that the search would begin with: four of the 36 characters' eight steps.
TEST_F(BatchSizeAuto, IsFoundForAShortText) {
  const TemporaryFolder folder;
  Config config = language_config(folder, {"train.batch_size=auto", "train.epochs=1"});
  folder.write("text.txt", "the cat sat. a dog ran. the cat sat. a do");
  EXPECT_EQ(find_batch_size(config), 4);
  config.train.batch_size = 4;
  EXPECT_NO_THROW(TestRun(config).train());
}

// A text shorter than one sequence is one row.
TEST_F(BatchSizeAuto, IsOneRowAtLeast) {
  const TemporaryFolder folder;
  const Config config =
      language_config(folder, {"train.batch_size=auto", "data.text.steps=100000"});
  EXPECT_EQ(find_batch_size(config), 1);
}

// What train.overfit_batches keeps grows with the batch: all examples bound it, as without.
TEST_F(BatchSizeAuto, IsNotBoundByOverfitBatches) {
  const TemporaryFolder folder;
  const std::vector<std::string> few = {"train.batch_size=auto", "train.overfit_batches=1",
                                        "data.text.steps=64"};
  EXPECT_EQ(find_batch_size(language_config(folder, few)), 64);
  const StripeFolder data;
  EXPECT_EQ(find_batch_size(data.config({"train.batch_size=auto", "train.overfit_batches=1"})), 40);
}

TEST_F(BatchSizeAuto, TakesNoMoreThanThereAreImages) {
  const StripeFolder data;
  Config config = data.config({"train.batch_size=auto"});
  EXPECT_EQ(find_batch_size(config), 40);
  const StripeFolder few(2, 10);
  EXPECT_EQ(find_batch_size(few.config({"train.batch_size=auto"})), 20) << "no multiple of 8";
  EXPECT_THAT(print_config(config), HasSubstr("batch_size: auto"));
  settle_batch_size(config);
  EXPECT_THAT(print_config(config), HasSubstr("batch_size: 40"));
}

TEST_F(BatchSizeAuto, SaysWhenNotEvenOneImageFits) {
  const StripeFolder data;
  const Config config =
      data.config({"train.batch_size=auto", "data.image_size=256", "runtime.memory.limit=1MiB"});
  EXPECT_THAT(message_of(ErrorKind::device, [&] { find_batch_size(config); }),
              HasSubstr("Not even a batch of one image fits"));
}

}  // namespace
}  // namespace whisker::test
