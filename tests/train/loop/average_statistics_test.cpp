// Averaged weights are validated and stored with statistics of their own activations.
#include "train/loop/average_statistics.h"

#include "core/autograd/autograd.h"
#include "tests/support/tiny_training.h"
#include "train/metrics/evaluate.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

/// Mean and unbiased variance per channel of what layer 0 gives for each training batch, averaged
/// over the batches: plain loops in f64.
struct Moments {
  std::vector<double> mean, variance;
};

Moments moments_of(const Network& network, BatchSource& source, int64_t epoch) {
  const NoGrad off_tape;
  Moments moments;
  source.start_epoch(epoch);
  int64_t batches = 0;
  while (const std::optional<Batch> batch = source.next()) {
    const std::vector<double> y = network.run_layers({0, 1}, batch->inputs).to_vector();
    const auto channels = static_cast<size_t>(
        network.model().net->children()[1].module->own_parameters()[0]->shape()[0]);
    moments.mean.resize(channels);
    moments.variance.resize(channels);
    const auto rows = static_cast<double>(y.size() / channels);
    for (size_t c = 0; c < channels; ++c) {
      double sum = 0, squares = 0;
      for (size_t i = c; i < y.size(); i += channels) sum += y[i];
      for (size_t i = c; i < y.size(); i += channels) squares += std::pow(y[i] - sum / rows, 2);
      moments.mean[c] += sum / rows;
      moments.variance[c] += squares / (rows - 1);
    }
    ++batches;
  }
  for (auto* values : {&moments.mean, &moments.variance}) {
    for (double& value : *values) value /= static_cast<double>(batches);
  }
  return moments;
}

std::vector<double> stored(const Network& network, std::string_view name) {
  for (const auto& parameter : network.arena().parameters()) {
    if (parameter->name() == name) return parameter->master().to_vector();
  }
  return {};
}

TEST(AverageStatistics, BestIsStoredWithThoseOfItsOwnActivations) {
  const StripeFolder data;
  // A slow average: half of it is the initial weights, whose activations the live statistics
  // forgot.
  TestRun run(data.config({"ema.decay=0.98", "ema.warmup=false", "train.epochs=4",
                           "train.metric=loss", "optimizer.lr=0.05"}));
  EXPECT_THAT(run.experiment.notes,
              testing::Contains(testing::StartsWith("ema: before each validation, batch_norm's")));
  const TrainResult result = run.train();
  ASSERT_EQ(result.best_epoch, 3);
  const Network best = Network::load(run.folder.best(), cpu_device);
  const Moments want = moments_of(best, *run.experiment.train, result.best_epoch + 1);
  const std::vector<double> mean = stored(best, "batch_norm.running_mean");
  const std::vector<double> variance = stored(best, "batch_norm.running_var");
  const std::vector<float> live =
      run.experiment.arena->read(parameter_named(run.experiment, "batch_norm.running_mean"));
  double apart = 0;
  ASSERT_EQ(mean.size(), want.mean.size());
  for (size_t c = 0; c < mean.size(); ++c) {
    EXPECT_NEAR(mean[c], want.mean[c], 1e-4 * (1 + std::abs(want.mean[c]))) << c;
    EXPECT_NEAR(variance[c], want.variance[c], 1e-4 * (1 + want.variance[c])) << c;
    apart = std::max(apart, std::abs(mean[c] - double{live[c]}));
  }
  EXPECT_GT(apart, 0.01);  // else nothing is shown
}

// The live weights keep theirs: training goes on as it would have without validations.
TEST(AverageStatistics, TrainingDoesNotNoticeThem) {
  const StripeFolder data;
  const auto final_weights = [&](const char* every) {
    TestRun run(data.config({"ema.decay=0.9", "train.epochs=3", every}));
    run.train();
    return hash_of(run.experiment);
  };
  EXPECT_EQ(final_weights("train.validate_every=1"), final_weights("train.validate_every=3"));
}

TEST(AverageStatistics, ARunThatStoppedGoesOnToTheSameBestWeights) {
  const StripeFolder data;
  const Config config = data.config({"ema.decay=0.9", "train.epochs=3"});
  const auto best_of = [](TestRun& run) {
    run.train();
    const Network best = Network::load(run.folder.best(), cpu_device);
    return stored(best, "batch_norm.running_var");
  };
  TestRun whole(config);
  const std::vector<double> want = best_of(whole);
  TestRun resumed(config, stopped_at(config, 7));
  EXPECT_EQ(best_of(resumed), want);
}

TEST(AverageStatistics, FrozenNormsKeepTheirs) {
  const StripeFolder data;
  TestRun run(data.config({"ema.decay=0.9", "train.epochs=2", "freeze_norm=true"}));
  EXPECT_THAT(run.experiment.notes,
              testing::Not(testing::Contains(testing::StartsWith("ema: before each"))));
  run.train();
  const Network best = Network::load(run.folder.best(), cpu_device);
  for (const double value : stored(best, "batch_norm.running_mean")) EXPECT_EQ(value, 0);
  for (const double value : stored(best, "batch_norm.running_var")) EXPECT_EQ(value, 1);
}

// Those of the weights that the run began with, which a resume reads after the average is made.
TEST(AverageStatistics, FrozenNormsKeepTheirsThroughAResume) {
  const StripeFolder data;
  TestRun first(data.config({"train.epochs=1", "name=first"}));
  first.train();
  const auto want =
      stored(Network::load(first.folder.best(), cpu_device), "batch_norm.running_mean");
  const Config config =
      data.config({"init.from=" + first.folder.best().string(), "freeze_norm=true", "ema.decay=0.9",
                   "train.epochs=3", "train.validate_every=3", "name=second"});
  TestRun resumed(config, stopped_at(config, 7));
  resumed.train();
  EXPECT_EQ(stored(Network::load(resumed.folder.best(), cpu_device), "batch_norm.running_mean"),
            want);
  EXPECT_THAT(want, testing::Contains(testing::Ne(0)));
}

}  // namespace
}  // namespace whisker::test
