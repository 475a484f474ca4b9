// Captured steps equal eager ones: with a graph that runs the work again (static inputs), and with
// one that replays recorded backend calls and so sees nothing of the host's state. And late
// reading.
#include "train/loop/train_step.h"

#include "tests/support/error_of.h"
#include "tests/support/overrides.h"
#include "tests/support/recording_backend.h"
#include "tests/support/tiny_training.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;

struct Outcome {
  std::string hash, metrics;
  bool operator==(const Outcome&) const = default;
};

Outcome train(TestRun& run) {
  run.train();
  return {hash_of(run.experiment), metrics_without_times(run.folder.path())};
}

/// Plain, with everything random and everything with state, with momentum and clipping.
std::vector<std::vector<std::string>> kinds_of_runs() {
  return {{"train.epochs=4"},
          joined(lively_overrides(), {"train.epochs=6"}),
          {"train.epochs=4", "optimizer.kind=sgd", "optimizer.momentum=0.9",
           "optimizer.clip_norm=0.1", "schedule.kind=cosine", "ema.decay=0.9"},
          {"train.epochs=4",  // the other layers, and windows of unequal sizes
           "model.layers=[{conv2d: {filters: 4, kernel: 3, strides: 2}}, {residual: {body: "
           "[{conv2d: {filters: 4, kernel: 3, padding: same}}, batch_norm]}}, "
           "{adaptive_avg_pool2d: 3}, {activation: gelu}, {avg_pool2d: 2}, flatten, layer_norm, "
           "{dropout: 0.2}]",
           "loss.class_weights=balanced"},
          {"train.epochs=6", "train.accumulate=3", "loss.class_weights=balanced",
           "optimizer.clip_norm=0.1"},  // six batches an epoch, of which the last has 2 images
          {"train.epochs=4", "model.head=[{dense: {units: 1, activation: sigmoid}}]",
           "loss.label_smoothing=0.1"}};
}

TEST(TrainStep, StaticInputsGiveTheEagerRun) {
  const StripeFolder data(2, 21, 5);  // 42 images in batches of 8: the last one has 2
  for (const auto& overrides : kinds_of_runs()) {
    for (const char* precision : {"precision=f32", "precision=bf16"}) {
      const Config config = data.config(joined(overrides, {precision}));
      TestRun eager(config);
      const Outcome expected = train(eager);
      int captures = 0;
      TestRun captured(config, std::nullopt, rerun(&captures));
      EXPECT_TRUE(train(captured) == expected) << overrides.back() << " " << precision;
      EXPECT_GT(captures, 0);
    }
  }
}

// The recorded calls know nothing but device memory: a learning rate, a mask or a count that came
// from the host would stay what it was when it was captured.
TEST(TrainStep, RecordedCallsGiveTheEagerRun) {
  const StripeFolder data(2, 21, 5);
  for (const auto& overrides : kinds_of_runs()) {
    const Config config = data.config(joined(overrides, {"device=reference"}));
    TestRun eager(config);
    const Outcome expected = train(eager);
    RecordingBackend recorder(backend_of(reference_device));
    const ReferenceStandIn stand_in(recorder);
    TestRun captured(config, std::nullopt, {.capture = [&](const std::function<void()>& work) {
                       return recorder.capture(work);
                     }});
    EXPECT_TRUE(train(captured) == expected) << overrides.back();
    EXPECT_GT(recorder.captures(), 0);
  }
}

TEST(TrainStep, ControlAHostValueInAGraphShows) {
  const StripeFolder data;
  const Config config = data.config({"device=reference", "train.epochs=4"});
  TestRun eager(config);
  const Outcome expected = train(eager);
  RecordingBackend recorder(backend_of(reference_device));
  const ReferenceStandIn stand_in(recorder);
  TestRun captured(config);
  Experiment& experiment = captured.experiment;
  TrainStep step(experiment, {.capture = [&](const std::function<void()>& work) {
                   // The rate of the capture, written from the graph itself.
                   return recorder.capture([&] {
                     Backend& backend = backend_of(reference_device);
                     static double frozen = 0;
                     frozen = experiment.schedule->at(3) * 2;
                     backend.copy(&frozen,
                                  &experiment.optimizer->memory().state()->inputs.learning_rate,
                                  sizeof frozen);
                     work();
                   });
                 }});
  int64_t number = 0;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    experiment.train->start_epoch(epoch);
    while (const std::optional<Batch> batch = experiment.train->next()) {
      ++number;
      step.run(*batch, {.number = number, .learning_rate = experiment.schedule->at(number - 1)});
    }
  }
  EXPECT_GT(step.replays(), 10);
  EXPECT_NE(hash_of(experiment), expected.hash);
}

// --- late reading ----------------------------------------------------------------------------

TEST(TrainStep, LateReadingChangesNothingButWhenItIsKnown) {
  const StripeFolder data;
  for (const auto& overrides : kinds_of_runs()) {
    const Config config =
        data.config(joined(overrides, {"train.log_every=2", "checkpoint.every=3"}));
    TestRun early(config);
    const Outcome expected = train(early);
    TestRun late(config, std::nullopt, {.late_reading = true});
    EXPECT_TRUE(train(late) == expected) << overrides.back();
    EXPECT_EQ(load_last(late.folder.last()).state.updates, late.experiment.optimizer->steps());
  }
}

TEST(TrainStep, WhatWasNotReadInAnEpochIsNotTold) {
  const StripeFolder data;  // five steps an epoch
  TestRun late(data.config({"train.epochs=3", "train.log_every=3"}), std::nullopt,
               {.late_reading = true});
  train(late);
  ASSERT_EQ(late.recorder.steps.size(), 15);
  constexpr int64_t first_read[] = {3, 1, 2};  // each epoch's batch of steps 3, 6 and 12
  for (const StepEvent& event : late.recorder.steps) {
    const bool read = event.batch >= first_read[event.epoch];
    EXPECT_EQ(event.epoch_loss.has_value(), read) << event.step;
    EXPECT_EQ(event.epoch_accuracy.has_value(), read) << event.step;
    // Else nothing is new; of step 10, which no line is about, the end of its epoch is read.
    const bool is_new = event.step % 3 == 0 || event.step == 11;
    EXPECT_EQ(event.loss.has_value(), is_new) << event.step;
    EXPECT_EQ(event.accuracy.has_value(), is_new) << event.step;
    EXPECT_EQ(event.gradient_norm.has_value(), read) << event.step;
  }
}

// What a GPU does: steps go on until the next reading, change nothing any more, and the batch that
// failed is read once more and searched.
TEST(TrainStep, AFailureReadLateNamesItsBatchAndTensor) {
  const StripeFolder data;
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "epoch 2, step 8:"},  // five steps an epoch: poisoned after the seventh
      {{"train.batch_size=4", "train.accumulate=2"}, "epoch 2, step 8:"}};
  for (const auto& [overrides, place] : cases) {
    for (const bool graph : {false, true}) {
      int captures = 0;
      TrainStepOptions options = rerun(&captures);
      if (!graph) options.capture = {};
      options.late_reading = true;
      TestRun run(data.config(joined(overrides, {"train.log_every=1000"})), std::nullopt, options);
      std::vector<float> good;
      const auto& first = run.experiment.arena->parameters()[0];
      run.recorder.each_step = [&](const StepEvent& event) {
        if (event.step != 7 || !good.empty()) return;
        good = run.experiment.arena->read(*first);
        poison(run.experiment, "dense.weight", NAN);
      };
      const std::string error = message_of(ErrorKind::diverged, [&] { run.train(); });
      EXPECT_THAT(error, HasSubstr(place));
      EXPECT_THAT(error,
                  HasSubstr("the loss is NaN or Inf; first seen in the weights dense.weight"));
      EXPECT_EQ(run.experiment.arena->read(*first), good);
      EXPECT_EQ(run.recorder.steps.back().step, 10);  // it went on to the end of the epoch
      EXPECT_EQ(load_last(run.folder.last()).state.step, 5);
    }
  }
}

}  // namespace
}  // namespace whisker::test
