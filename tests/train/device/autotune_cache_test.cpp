// Which algorithms a run uses is part of it: its checkpoint holds them, a resume follows them
// whatever the user's cache says, and `deterministic` knows no cache.
#include "train/device/autotune_cache.h"

#include "core/backend/backend.h"
#include "core/cpu/cpu_backend.h"
#include "core/io/file.h"
#include "core/nvidia/cuda_library.h"
#include "core/ops/ops.h"
#include "tests/support/error_of.h"
#include "tests/support/overrides.h"
#include "tests/support/tiny_training.h"
#include "train/loop/repeat.h"

#include <cstdlib>
#include <fstream>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

namespace fs = std::filesystem;

/// As if the process had just begun.
void forget_choices() {
  set_cpu_options({.winograd = false});
  set_cpu_options({});
}

std::string choices() {
  return backend_of(cpu_device).export_algorithms();
}

std::string other_algorithms(std::string table) {
  table = std::regex_replace(table, std::regex("\"direct\""), "\"?\"");
  table = std::regex_replace(table, std::regex("\"winograd\""), "\"direct\"");
  return std::regex_replace(table, std::regex("\"\\?\""), "\"winograd\"");
}

// Wide enough for Winograd where the processor has it.
constexpr const char* wide_layers =
    "model.layers=[{conv2d: {filters: 32, kernel: 3}}, {batch_norm: {activation: relu}}, "
    "{conv2d: {filters: 32, kernel: 3}}, {batch_norm: {activation: relu}}, global_avg_pool2d]";

class TrainingAlgorithms : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* before = std::getenv("XDG_CACHE_HOME")) before_ = before;
    ::setenv("XDG_CACHE_HOME", (data_ / "cache").c_str(), 1);
    forget_choices();
  }
  void TearDown() override {
    if (before_) {
      ::setenv("XDG_CACHE_HOME", before_->c_str(), 1);
    } else {
      ::unsetenv("XDG_CACHE_HOME");
    }
    forget_choices();
  }

  Config config(const std::vector<std::string>& overrides = {}) const {
    return data_.config(joined({wide_layers, "data.workers=0"}, overrides));
  }
  fs::path cache() const { return data_ / "cache/whisker/cpu_algorithms.json"; }
  void write_cache(const std::string& text, const char* name = "cpu_algorithms.json") const {
    fs::create_directories(cache().parent_path());
    std::ofstream(cache().parent_path() / name) << text;
  }
  std::string hash_of_run() const { return test::hash_of_run(config()); }

  StripeFolder data_;
  std::optional<std::string> before_;
};

TEST_F(TrainingAlgorithms, ResumeFollowsItsCheckpointNotThePoisonedCache) {
  const std::string expected = hash_of_run();
  const std::string table = choices();
  if (table.empty()) GTEST_SKIP() << "this build or processor has one algorithm only";
  const fs::path folder = stopped_at(config(), 7);  // in the second epoch

  forget_choices();
  write_cache(other_algorithms(table));
  load_algorithms(cpu_device);
  ASSERT_EQ(choices(), other_algorithms(table));
  TestRun resumed(config(), folder);
  EXPECT_EQ(choices(), table);
  EXPECT_EQ(resumed.train().reason, StopReason::finished);
  EXPECT_EQ(hash_of(resumed.experiment), expected);

  backend_of(cpu_device).import_algorithms(other_algorithms(table));
  EXPECT_NE(hash_of_run(), expected) << "control: the other algorithms give the same bits";
}

TEST_F(TrainingAlgorithms, RepeatFollowsTheRunNotThePoisonedCache) {
  TestRun run(config());
  run.train();
  const std::string table = choices();
  if (table.empty()) GTEST_SKIP() << "this build or processor has one algorithm only";
  const TrainState recorded = load_last(run.folder.last()).state;

  forget_choices();
  write_cache(other_algorithms(table));
  TestRun repeated(config());
  check_repeatable(run.folder.path(), recorded, repeated.experiment);
  repeated.trainer.repeat(recorded);
  EXPECT_EQ(choices(), table);
  EXPECT_EQ(repeated.train().reason, StopReason::finished);
  EXPECT_TRUE(same_weights(run.folder.path(), repeated.folder.path()));

  forget_choices();
  load_algorithms(cpu_device);
  TestRun control(config());
  control.train();
  EXPECT_FALSE(same_weights(run.folder.path(), control.folder.path()));

  TrainState elsewhere = recorded;
  for (BackendProperty& one : elsewhere.environment) {
    if (one.name == "threads") one.value = "77";
  }
  EXPECT_THAT(
      message_of(ErrorKind::checkpoint,
                 [&] { check_repeatable(run.folder.path(), elsewhere, control.experiment); }),
      testing::HasSubstr("threads: 77 then, "));
}

TEST_F(TrainingAlgorithms, CacheServesTheNextProcess) {
  save_algorithms(cpu_device);
  EXPECT_FALSE(fs::exists(cache())) << "nothing was timed";
  hash_of_run();
  const std::string table = choices();
  if (table.empty()) GTEST_SKIP() << "this build or processor has one algorithm only";
  EXPECT_FALSE(fs::exists(cache())) << "the library writes nothing by itself";
  save_algorithms(cpu_device);
  EXPECT_EQ(read_file(cache(), 1 << 20, ErrorKind::data), table);
  const auto written = fs::last_write_time(cache());
  forget_choices();
  load_algorithms(cpu_device);
  EXPECT_EQ(choices(), table);
  save_algorithms(cpu_device);
  EXPECT_EQ(fs::last_write_time(cache()), written) << "nothing new, yet written";
}

TEST_F(TrainingAlgorithms, CacheThatFailsIsNoError) {
  hash_of_run();
  const std::string table = choices();
  if (table.empty()) GTEST_SKIP() << "this build or processor has one algorithm only";
  write_cache("{\"library\":");
  load_algorithms(cpu_device);
  EXPECT_EQ(choices(), table);
  save_algorithms(cpu_device);
  EXPECT_EQ(read_file(cache(), 1 << 20, ErrorKind::data), table);
  fs::remove_all(data_ / "cache");
  std::ofstream(data_ / "cache") << "a file where the folder should be";
  save_algorithms(cpu_device);
  load_algorithms(cpu_device);
  load_algorithms(reference_device);
  EXPECT_EQ(choices(), table);
}

TEST_F(TrainingAlgorithms, DeterministicKnowsNoCacheAndTimesNothing) {
  hash_of_run();
  const std::string table = choices();
  const Config fixed = config({"deterministic=true"});
  write_cache(other_algorithms(table));
  std::vector<std::string> hashes;
  for (int i = 0; i < 2; ++i) {
    TestRun run(fixed);
    EXPECT_TRUE(cpu_options().deterministic);
    load_algorithms(cpu_device);
    run.train();
    EXPECT_EQ(choices(), "");
    save_algorithms(cpu_device);
    hashes.push_back(hash_of(run.experiment));
    fs::remove(cache());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_FALSE(fs::exists(cache()));
}

// What a timed run leaves in the cache between two deterministic ones changes neither.
TEST_F(TrainingAlgorithms, DeterministicKnowsNoCacheAndTimesNothingOnAGpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: no GPU (" << why_no_cuda() << ")";
  constexpr Device first_gpu{DeviceKind::cuda, 0};
  const auto chosen = [] { return backend_of(first_gpu).export_algorithms(); };
  const CudaOptions before = cuda_options(first_gpu);
  const fs::path cached = autotune_cache_path(first_gpu);

  set_cuda_options(first_gpu,
                   {.search_seconds = 600, .workspace_limit = before.workspace_limit + 1});
  const Tensor a = ones({512, 512}, {.device = first_gpu});
  for (int i = 0; i < 3; ++i) matmul(a, a);
  const std::string table = chosen();
  ASSERT_NE(table, "") << "nothing was timed";
  save_algorithms(first_gpu);
  EXPECT_EQ(read_file(cached, 1 << 20, ErrorKind::data), table);

  const Config fixed = config({"device=cuda", "deterministic=true"});
  std::vector<std::string> hashes;
  for (int i = 0; i < 2; ++i) {
    TestRun run(fixed);
    EXPECT_TRUE(cuda_options(first_gpu).deterministic);
    load_algorithms(first_gpu);
    EXPECT_EQ(chosen(), "") << "the cache was read";
    run.train();
    EXPECT_EQ(chosen(), "") << "something was timed";
    save_algorithms(first_gpu);
    hashes.push_back(hash_of(run.experiment));
    EXPECT_EQ(fs::exists(cached), i == 0) << "the cache was written";
    fs::remove(cached);
  }
  EXPECT_EQ(hashes[0], hashes[1]);

  write_cache(table, "cuda_algorithms.json");
  set_cuda_options(first_gpu, {});
  load_algorithms(first_gpu);
  EXPECT_EQ(chosen(), table) << "control: other runs do not read the cache";
  set_cuda_options(first_gpu, {.deterministic = true});
  backend_of(first_gpu).import_algorithms(table);
  EXPECT_EQ(chosen(), table) << "a resumed run follows the table of its checkpoint";
  set_cuda_options(first_gpu, before);
}

TEST_F(TrainingAlgorithms, ConfigurationReachesTheBackend) {
  const Experiment experiment(config({"runtime.threads=3", "runtime.winograd=false"}));
  EXPECT_EQ(cpu_options(), (CpuOptions{.threads = 3, .winograd = false}));
  std::string threads;
  for (const BackendProperty& fact : backend_of(cpu_device).properties()) {
    if (fact.name == "threads") threads = fact.value;
  }
  EXPECT_EQ(threads, "3");
}

TEST_F(TrainingAlgorithms, CacheLiesWhereTheUserKeepsCaches) {
  EXPECT_EQ(autotune_cache_path(), cache());
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  ::setenv("XDG_CACHE_HOME", "relative", 1);  // to be ignored
  ::setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(autotune_cache_path(), "/home/someone/.cache/whisker/cpu_algorithms.json");
  ::unsetenv("HOME");
  EXPECT_EQ(autotune_cache_path(), "");
  ::setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace whisker::test
