// The loss scale: without a trace in f32; in f16, and where f32 overflows, steps are skipped until
// it fits.
#include "tests/support/training_on.h"

#include <cmath>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

// A power of two passes through f32.
TEST(LossScale, GivesTheSameRun) {
  const StripeFolder data;
  const Config config = data.config(lively_overrides());
  TestRun plain(config);
  plain.train();
  auto scaled = std::make_unique<TestRun>(config);
  // Where the trainer's step has a pointer to: the optimizer's own state.
  StepState state = scaled->experiment.optimizer->memory().read();
  state.loss_scale = 1024;
  scaled->experiment.optimizer->memory().write(state);
  scaled->train();
  EXPECT_EQ(hash_of(scaled->experiment), hash_of(plain.experiment));
  EXPECT_EQ(metrics_without_times(scaled->folder.path()),
            metrics_without_times(plain.folder.path()));
  const TrainState saved = load_last(scaled->folder.last()).state;
  EXPECT_EQ(saved.loss_scale.value, 1024);
  EXPECT_EQ(saved.updates, saved.step);
  const std::filesystem::path path = scaled->folder.path();
  scaled.reset();  // it holds the folder's lock
  const TestRun resumed(config, path);
  EXPECT_EQ(resumed.experiment.optimizer->memory().read().loss_scale, 1024);
  EXPECT_EQ(resumed.experiment.optimizer->steps(), saved.updates);
}

using LossScaleOn = TrainingOn;
INSTANTIATE_TEST_SUITE_P(, LossScaleOn, testing::ValuesIn(network_devices),
                         [](const auto& device) { return test_name(device.param); });

// f16 on a GPU, whose gradients overflow by themselves; on the CPU, f32 with a steep layer.
TEST_P(LossScaleOn, SkipsOverflowsUntilItFits) {
  Experiment experiment(config({"train.epochs=4", on_gpu() ? "precision=f16" : "precision=f32"}));
  experiment.optimizer =
      std::make_unique<Optimizer>(*experiment.arena, experiment.config.optimizer, true);
  const int first = on_gpu() ? 28 : 127;
  StepState state = experiment.optimizer->memory().read();
  EXPECT_EQ(state.loss_scale, first_loss_scale);
  state.loss_scale = std::ldexp(1.0f, first);
  experiment.optimizer->memory().write(state);
  if (!on_gpu()) {
    const Parameter& steep = parameter_named(experiment, "dense.weight");
    std::vector<float> values = experiment.arena->read(steep);
    for (float& v : values) v *= 1e4f;
    experiment.arena->write(steep, values);
  }
  TrainStep step(experiment);
  step.begin({});
  int64_t number = 0;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    experiment.train->start_epoch(epoch);
    while (const std::optional<Batch> batch = experiment.train->next()) {
      step.run(*batch, {.number = ++number, .learning_rate = 0.01});
      if (number > 1) continue;
      EXPECT_EQ(step.read().skipped, 1);
      EXPECT_EQ(step.read().loss_scale, std::ldexp(1.0f, first - 1)) << "halved";
    }
  }
  state = step.read();
  EXPECT_EQ(state.failure, StepFailure::none);
  EXPECT_GT(state.steps, 0);
  EXPECT_EQ(state.steps + state.skipped, number);
  EXPECT_EQ(state.loss_scale, std::ldexp(1.0f, first - static_cast<int>(state.skipped)));
  EXPECT_EQ(state.totals.rows, 8 * number);  // losses were finite throughout
  EXPECT_EQ(step.replays() > 0, on_gpu()) << "captured steps skip as well";
  for (const double v : weights_of(experiment)) ASSERT_TRUE(std::isfinite(v));
}

}  // namespace
}  // namespace whisker::test
