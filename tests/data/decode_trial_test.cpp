// The choice of who decodes, over a made-up machine whose clock and speed the test sets.
#include "data/decode_trial.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace whisker {
namespace {

struct Machine {
  std::function<double(double)> seconds_per_batch;  // by share
  double wait_share = 0.3;
};

// Delivers batches until the trial is over, in epochs of ten; returns how many that took.
int64_t run(DecodeTrial& trial, const Machine& machine, int64_t most = 10'000) {
  int64_t batches = 0;
  while (!trial.finished() && batches < most) {
    const double seconds = machine.seconds_per_batch(trial.share());
    const bool first = batches % 10 == 0;
    trial.delivered({.pictures = 100,
                     .seconds = first ? 1e6 : seconds,  // a validation lies between
                     .waited = first ? 0 : machine.wait_share * seconds,
                     .first_of_epoch = first});
    ++batches;
  }
  return batches;
}

TEST(DecodeTrial, TakesTheFastestShare) {
  DecodeTrial trial({});
  run(trial, {.seconds_per_batch = [](double share) { return 2 - share * (1.5 - share); }});
  EXPECT_TRUE(trial.finished());
  EXPECT_EQ(trial.share(), 0.75);
  EXPECT_EQ(trial.verdict(),
            "data.gpu_decode: nvJPEG decodes 75 % of the JPEG files (pictures/s: 0 % on the GPU "
            "50, 25 % on the GPU 59, 50 % on the GPU 67, 75 % on the GPU 70, 100 % on the GPU 67)");
}

TEST(DecodeTrial, KeepsTheCpuUnlessAnotherShareIsClearlyFaster) {
  DecodeTrial slower({});
  run(slower, {.seconds_per_batch = [](double share) { return 1 + share; }});
  EXPECT_EQ(slower.share(), 0);
  EXPECT_EQ(slower.verdict(),  // more than the 25 % are not tried
            "data.gpu_decode: nvJPEG decodes 0 % of the JPEG files (pictures/s: 0 % on the GPU "
            "100, 25 % on the GPU 80)");
  DecodeTrial alike({});
  run(alike, {.seconds_per_batch = [](double share) { return 1 - 0.02 * share; }});
  EXPECT_EQ(alike.share(), 0);
}

TEST(DecodeTrial, TriesNothingWhenTheCpuKeepsUp) {
  DecodeTrial trial({});
  bool tried = false;
  const int64_t batches = run(trial, {.seconds_per_batch =
                                          [&](double share) {
                                            tried = tried || share > 0;
                                            return 0.5;
                                          },
                                      .wait_share = 0.01});
  EXPECT_FALSE(tried);
  EXPECT_EQ(trial.share(), 0);
  EXPECT_LT(batches, 60);
  EXPECT_EQ(trial.verdict(),
            "data.gpu_decode: the CPU decodes all JPEG files and keeps up: 200 pictures/s, 1.0 % "
            "of the time spent waiting for them");
}

// Batches that were prepared under another share, and what happens before an epoch's first batch,
// count for nothing.
TEST(DecodeTrial, LeavesOutWhatBelongsToAnotherShare) {
  const TrialOptions options{.shares = {0, 1}, .warm_up = 5, .settle = 4, .measured = 6};
  DecodeTrial trial(options);
  int64_t since_change = -options.warm_up + options.settle;  // the warm-up counts as a change
  double before = trial.share();
  for (int i = 0; i < 40 && !trial.finished(); ++i) {
    const bool stale = since_change < options.settle;
    trial.delivered({.pictures = 10,
                     .seconds = stale                ? 1000
                                : trial.share() == 0 ? 2.0
                                                     : 1.0,
                     .waited = 1});
    ++since_change;
    if (trial.share() != before) since_change = 0;
    before = trial.share();
  }
  ASSERT_TRUE(trial.finished());
  EXPECT_EQ(trial.share(), 1);
  EXPECT_NE(trial.verdict().find("0 % on the GPU 5, 100 % on the GPU 10"), std::string::npos)
      << trial.verdict();
}

}  // namespace
}  // namespace whisker
