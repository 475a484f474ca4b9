// The choice of the decoding device, on a simulated machine whose clock and speed the test sets.
#include "data/loader/decode_benchmark.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace whisker {
namespace {

struct Machine {
  std::function<double(double)> seconds_per_batch;  // by share
  double wait_share = 0.3;
};

// Delivers batches until the benchmark has finished. Returns their number.
int64_t run(DecodeBenchmark& benchmark, const Machine& machine, int64_t most = 10'000) {
  int64_t batches = 0;
  while (!benchmark.finished() && batches < most) {
    const double seconds = machine.seconds_per_batch(benchmark.share());
    benchmark.delivered(
        {.images = 100, .seconds = seconds, .waited = machine.wait_share * seconds});
    ++batches;
  }
  return batches;
}

TEST(DecodeBenchmark, ChoosesTheFastestShare) {
  DecodeBenchmark benchmark({});
  run(benchmark, {.seconds_per_batch = [](double share) { return 2 - share * (1.5 - share); }});
  EXPECT_TRUE(benchmark.finished());
  EXPECT_EQ(benchmark.share(), 0.75);
  EXPECT_EQ(benchmark.verdict(),
            "data.gpu_decode: nvJPEG decodes 75 % of the JPEG files (images/s: 0 % on the GPU "
            "50, 25 % on the GPU 59, 50 % on the GPU 67, 75 % on the GPU 70, 100 % on the GPU 67)");
}

TEST(DecodeBenchmark, KeepsTheCpuUnlessAnotherShareIsClearlyFaster) {
  DecodeBenchmark slower({});
  run(slower, {.seconds_per_batch = [](double share) { return 1 + share; }});
  EXPECT_EQ(slower.share(), 0);
  EXPECT_EQ(slower.verdict(),  // more than the 25 % are not tried
            "data.gpu_decode: nvJPEG decodes 0 % of the JPEG files (images/s: 0 % on the GPU "
            "100, 25 % on the GPU 80)");
  DecodeBenchmark alike({});
  run(alike, {.seconds_per_batch = [](double share) { return 1 - 0.02 * share; }});
  EXPECT_EQ(alike.share(), 0);
}

TEST(DecodeBenchmark, TriesNothingWhenTheCpuKeepsUp) {
  DecodeBenchmark benchmark({});
  bool tried = false;
  const int64_t batches = run(benchmark, {.seconds_per_batch =
                                              [&](double share) {
                                                tried = tried || share > 0;
                                                return 0.5;
                                              },
                                          .wait_share = 0.01});
  EXPECT_FALSE(tried);
  EXPECT_EQ(benchmark.share(), 0);
  EXPECT_LT(batches, 60);
  EXPECT_EQ(benchmark.verdict(),
            "data.gpu_decode: the CPU decodes all JPEG files and keeps up: 200 images/s, 1.0 % "
            "of the time spent waiting for them");
}

// Batches prepared for another fraction are not timed.
TEST(DecodeBenchmark, IgnoresBatchesOfAnotherShare) {
  const DecodeBenchmarkOptions options{.shares = {0, 1}, .warm_up = 5, .settle = 4, .measured = 6};
  DecodeBenchmark benchmark(options);
  int64_t since_change = -options.warm_up + options.settle;  // the warm-up counts as a change
  double before = benchmark.share();
  for (int i = 0; i < 40 && !benchmark.finished(); ++i) {
    const bool stale = since_change < options.settle;
    benchmark.delivered({.images = 10,
                         .seconds = stale                    ? 1000
                                    : benchmark.share() == 0 ? 2.0
                                                             : 1.0,
                         .waited = 1});
    ++since_change;
    if (benchmark.share() != before) since_change = 0;
    before = benchmark.share();
  }
  ASSERT_TRUE(benchmark.finished());
  EXPECT_EQ(benchmark.share(), 1);
  EXPECT_NE(benchmark.verdict().find("0 % on the GPU 5, 100 % on the GPU 10"), std::string::npos)
      << benchmark.verdict();
}

}  // namespace
}  // namespace whisker
