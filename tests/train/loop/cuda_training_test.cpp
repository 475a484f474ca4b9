// Whole runs on a GPU: captured steps give the eager run, a run goes on there and on the other
// device, and memory, traces and the search for a batch work there. Everything is skipped without a
// GPU.
#include "core/backend/backend.h"
#include "core/io/file.h"
#include "core/nvidia/cuda_library.h"
#include "tests/support/failing_allocation.h"
#include "tests/support/overrides.h"
#include "tests/support/poisoned_memory.h"
#include "tests/support/tiny_training.h"
#include "train/planning/batch_size_search.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr Device gpu{DeviceKind::cuda, 0};

class CudaTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: no GPU (" << why_no_cuda() << ")";
    poisoned_.emplace(gpu);
  }
  const StripeFolder data_{2, 21, 5};  // 42 images in batches of 8: the last one has 2

 private:
  std::optional<PoisonedMemory> poisoned_;
};

TEST_F(CudaTraining, CapturedRunsEqualEagerOnes) {
  const std::vector<std::vector<std::string>> kinds = {
      {"train.epochs=4"},
      joined(lively_overrides(), {"train.epochs=6"}),
      {"train.epochs=4", "optimizer.kind=sgd", "optimizer.momentum=0.9", "optimizer.clip_norm=0.1",
       "schedule.kind=cosine", "ema.decay=0.9"}};
  for (const auto& overrides : kinds) {
    for (const char* precision : {"f32", "bf16", "f16"}) {
      const std::vector<std::string> all = joined(
          overrides, {"device=cuda", "deterministic=true", fmt::format("precision={}", precision)});
      TestRun eager(data_.config(joined(all, {"runtime.graph=false"})));
      eager.train();
      TestRun captured(data_.config(all));
      captured.train();
      EXPECT_EQ(hash_of(captured.experiment), hash_of(eager.experiment))
          << overrides.back() << " " << precision;
      EXPECT_EQ(metrics_without_times(captured.folder.path()),
                metrics_without_times(eager.folder.path()))
          << overrides.back() << " " << precision;
    }
  }
}

// Trains on `first` until step `k`, then on `second` to the end, from moments of 0 if they are
// `forgotten`; all parameters and statistics then. By momentum: Adam makes whole steps of gradients
// that are rounding errors.
std::vector<double> weights_over(const StripeFolder& data, const char* first, const char* second,
                                 int64_t k, bool forgotten = false) {
  const Overrides base = {"train.epochs=3",     "precision=f32",          "deterministic=true",
                          "optimizer.kind=sgd", "optimizer.momentum=0.9", "optimizer.lr=0.02"};
  const fs::path folder =
      stopped_at(data.config(joined(base, {fmt::format("device={}", first)})), k);
  TestRun rest(data.config(joined(base, {fmt::format("device={}", second)})), folder);
  if (forgotten) rest.experiment.optimizer->moments()[0].flat.fill_(0);
  EXPECT_EQ(rest.train().reason, StopReason::finished);
  return weights_of(rest.experiment);
}

TEST_F(CudaTraining, ARunGoesOnOnTheOtherDevice) {
  const std::vector<double> start = weights_of(Experiment(data_.config({"device=cpu"})));
  for (const int64_t k : {2, 9}) {
    const std::vector<double> here = weights_over(data_, "cpu", "cpu", k);
    const double way = distance(start, here);
    // As of ten_steps_test: f32 sums in other orders.
    EXPECT_LT(distance(weights_over(data_, "cpu", "cuda", k), here), 1e-4 * way) << k;
    EXPECT_LT(distance(weights_over(data_, "cuda", "cpu", k), here), 1e-4 * way) << k;
    EXPECT_GT(distance(weights_over(data_, "cpu", "cuda", k, true), here), 1e-2 * way)
        << "control: moments are no part of what goes on";
  }
}

// Decoded and augmented on the way, in the middle of an epoch, with captured steps.
TEST_F(CudaTraining, AResumeGivesTheUninterruptedRunBitForBit) {
  for (const char* precision : {"f32", "bf16", "f16"}) {
    const Config config =
        data_.config(joined(lively_overrides(), {"device=cuda", "deterministic=true",
                                                 fmt::format("precision={}", precision)}));
    TestRun whole(config);
    whole.train();
    for (const int64_t k : {1, 5}) {  // of three steps an epoch
      const fs::path folder = stopped_at(config, k);
      TestRun rest(config, folder);
      EXPECT_EQ(rest.train().reason, StopReason::finished);
      EXPECT_EQ(hash_of(rest.experiment), hash_of(whole.experiment))
          << precision << ", stopped at " << k;
      EXPECT_EQ(metrics_without_times(folder), metrics_without_times(whole.folder.path()))
          << precision << ", stopped at " << k;
    }
  }
}

TEST_F(CudaTraining, ReservedMemoryServesAWholeRun) {
  TestRun run(data_.config({"device=cuda", "runtime.memory.mode=preallocate",
                            "runtime.memory.limit=1GiB", "train.epochs=4"}));
  const int64_t reserved = backend_of(gpu).memory_stats().reserved;
  EXPECT_GE(reserved, int64_t{1} << 30);
  run.train();
  EXPECT_LE(backend_of(gpu).memory_stats().reserved, reserved + (16 << 20))
      << "the reserve was not used";
}

// Validation, and an epoch's last batch where it is not left out, come on top of the captured
// steps, which keep their memory.
TEST_F(CudaTraining, FindsABatchWithinALimit) {
  const StripeFolder data(2, 150, 150);
  for (const char* drop_last : {"false", "true"}) {
    SCOPED_TRACE(std::string("train.drop_last=") + drop_last);
    const auto config = [&](const std::string& batch) {
      return data.config({"device=cuda", "deterministic=true", "train.batch_size=" + batch,
                          std::string("train.drop_last=") + drop_last, "data.image_size=256",
                          "train.epochs=6", "ema.decay=0.9", "runtime.memory.limit=512MiB"});
    };
    const int64_t found = find_batch_size(config("auto"));
    fmt::print("512 MiB: batches of {}\n", found);
    EXPECT_GT(found, 1);
    ASSERT_LT(found, 120) << "larger ones come too seldom to be captured";
    EXPECT_NO_THROW(TestRun(config(fmt::format("{}", found))).train());
    // A last batch that happens to be small would let a larger one fit.
    if (drop_last == std::string("false")) continue;
    const int64_t larger = found + found / 8 + 9;
    EXPECT_THROW(TestRun(config(fmt::format("{}", larger))).train(), OutOfMemory) << larger;
  }
}

// Of a whole run, captured steps, validation and loader included, until a run ends by itself: the
// first ones, then every seventh, with WHISKER_LONG all of them.
TEST_F(CudaTraining, EveryAllocationOfARunMayFail) {
  const Config config = data_.config({"device=cuda", "deterministic=true", "data.gpu_decode=0"});
  Backend& backend = backend_of(gpu);
  TestRun(config).train();  // what the libraries take once
  const int64_t held = backend.memory_stats().allocated;
  const bool all = std::getenv("WHISKER_LONG") != nullptr;
  int64_t ended = 0;
  for (int64_t failing = 1;; failing += all || failing < 60 ? 1 : 7) {
    backend.set_memory_options({.failing_allocation = failing});
    bool finished = false;
    try {
      finished = TestRun(config).train().reason == StopReason::finished;
      EXPECT_TRUE(until_failure(backend, failing))
          << "a run did not notice that " << failing << " failed";
    } catch (const OutOfMemory& error) {
      ++ended;
      EXPECT_THAT(error.what(), HasSubstr("out of memory"));
    }
    backend.set_memory_options({});
    ASSERT_EQ(backend.memory_stats().allocated, held) << "allocation " << failing << " leaks";
    if (finished) break;
  }
  fmt::print("{} failures ended a run\n", ended);
  EXPECT_GT(ended, 60);
  EXPECT_NO_THROW(TestRun(config).train());
}

TEST_F(CudaTraining, TracesHoldTheDevicesTimes) {
  TestRun run(data_.config({"device=cuda", "train.profile=2", "train.epochs=3"}));
  run.train();
  const std::string trace = read_file(run.folder.path() / "trace.json", 1 << 24, ErrorKind::data);
  EXPECT_THAT(trace, HasSubstr("\"name\":\"cuda:0\""));
  EXPECT_THAT(trace, HasSubstr("\"tid\":2"));
}

}  // namespace
}  // namespace whisker::test
