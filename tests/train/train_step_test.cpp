// Captured steps equal eager ones: with a graph that runs the work again (static inputs), and with
// one that replays recorded backend calls and so sees nothing of the host's state. What is captured
// when, and late reading.
#include "train/train_step.h"

#include "core/storage.h"
#include "support/recording_backend.h"
#include "support/tiny_training.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

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
          {"train.epochs=4", "model.head=[{dense: {units: 1, activation: sigmoid}}]",
           "loss.label_smoothing=0.1"}};
}

TEST(TrainStep, StaticInputsGiveTheEagerRun) {
  const StripeFolder data(2, 21, 5);  // 42 pictures in batches of 8: the last one has 2
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

/// A TrainStep fed by hand.
struct Fed {
  explicit Fed(const Config& config, TrainStepOptions options)
      : experiment(config), step(experiment, std::move(options)) {
    step.begin({});
  }
  void feed(int64_t rows, int times = 1, bool soft = false) {
    for (int i = 0; i < times; ++i) {
      Batch batch{.inputs = rand_uniform({rows, 16, 16, 3}, 0, 1, 1, 1),
                  .labels = zeros({rows}, {.dtype = DType::i64}),
                  .soft_labels = soft ? full({rows, 2}, 0.5) : Tensor(),
                  .indices = std::vector<int64_t>(static_cast<size_t>(rows))};
      step.run(batch, {.number = ++number, .learning_rate = 0.01});
    }
  }
  Experiment experiment;
  TrainStep step;
  int64_t number = 0;
};

TEST(TrainStep, CapturesAShapeThatStaysAndRunsOddOnesEagerly) {
  const StripeFolder data;
  int captures = 0;
  Fed fed(data.config(), rerun(&captures));
  fed.feed(8, 3);
  EXPECT_EQ(captures, 0);
  fed.feed(8, 2);
  EXPECT_EQ(captures, 1);
  EXPECT_EQ(fed.step.replays(), 2);
  fed.feed(5);  // odd
  fed.feed(8);
  EXPECT_EQ(captures, 1);
  EXPECT_EQ(fed.step.replays(), 3);
  fed.feed(5, 2);
  EXPECT_EQ(captures, 1);
  fed.feed(5);  // comes again and again
  EXPECT_EQ(captures, 2);
  EXPECT_EQ(fed.step.replays(), 4);
  fed.feed(5, 1, /*soft=*/true);  // another kind of label is another shape
  EXPECT_EQ(fed.step.replays(), 4);
  EXPECT_EQ(fed.step.read().steps, fed.number);
  EXPECT_EQ(fed.step.read().totals.rows, 8 * 6 + 5 * 5);
}

TEST(TrainStep, ShapesThatTakeTurnsHaveAGraphEach) {
  const StripeFolder data;
  int captures = 0;
  Fed fed(data.config(), rerun(&captures));
  for (int epoch = 0; epoch < 4; ++epoch) {
    fed.feed(8, 3);
    fed.feed(2);
  }
  EXPECT_EQ(captures, 2);
  EXPECT_EQ(fed.step.replays(), 9 + 1);  // each from its fourth batch on
  EXPECT_EQ(fed.step.read().totals.rows, 4 * 26);
}

TEST(TrainStep, OfManyShapesSomeStayCaptured) {
  const StripeFolder data;
  int captures = 0;
  Fed fed(data.config(), rerun(&captures));
  const auto take_turns = [&](int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (int64_t rows = 1; rows <= 20; ++rows) fed.feed(rows);
    }
  };
  take_turns(3);
  EXPECT_EQ(captures, 0);
  take_turns(5);
  EXPECT_EQ(captures, 16);  // the first sixteen, and they are kept
  EXPECT_EQ(fed.step.replays(), 5 * 16);
}

TEST(TrainStep, RareShapesStayEager) {
  const StripeFolder data;
  for (const int between : {49, 99}) {  // more and less than one batch in 64
    int captures = 0;
    Fed fed(data.config(), rerun(&captures));
    for (int round = 0; round < 5; ++round) {
      fed.feed(2, between);
      fed.feed(1);
    }
    EXPECT_EQ(captures, between == 49 ? 2 : 1);
    EXPECT_EQ(fed.step.replays(), 5 * between - 3 + (between == 49 ? 2 : 0));
  }
}

TEST(TrainStep, AShapeThatComesNoMoreMakesRoom) {
  const StripeFolder data;
  int captures = 0;
  Fed fed(data.config(), rerun(&captures));
  for (int64_t rows = 1; rows <= 16; ++rows) fed.feed(rows, 4);
  EXPECT_EQ(captures, 16);
  fed.feed(1, 900);
  fed.feed(17, 20);  // the others have not come for some 1,000 batches
  EXPECT_EQ(captures, 16);
  fed.feed(1, 100);
  fed.feed(17);
  EXPECT_EQ(captures, 17);
  fed.feed(2);  // it made room
  EXPECT_EQ(fed.step.replays(), 16 + 1000 + 1);
}

TEST(TrainStep, CapturesEachPartOfAnAccumulatedStep) {
  const StripeFolder data;
  int captures = 0;
  Fed fed(data.config({"train.accumulate=3"}), rerun(&captures));
  fed.feed(8, 9);
  EXPECT_EQ(captures, 0);
  fed.feed(8, 3);  // overwriting gradients, adding, adding with the update
  EXPECT_EQ(captures, 3);
  fed.feed(8, 6);
  EXPECT_EQ(captures, 3);
  EXPECT_EQ(fed.step.read().steps, 6);
}

TEST(TrainStep, DoesWithoutGraphsWhereThereAreNoneOrNotWanted) {
  const StripeFolder data;
  int asked = 0;
  const TrainStepOptions none{.capture = [&](const std::function<void()>&) {
    ++asked;
    return std::unique_ptr<CapturedGraph>();
  }};
  Fed fed(data.config(), none);
  fed.feed(8, 6);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(fed.step.replays(), 0);
  EXPECT_EQ(fed.step.read().steps, 6);
  Fed unwanted(data.config({"runtime.graph=false"}), none);
  unwanted.feed(8, 6);
  EXPECT_EQ(asked, 1);
  Fed host(data.config(), {});
  host.feed(8, 6);
  EXPECT_EQ(host.step.replays(), 0);
}

TEST(TrainStep, ReplaysKeepMemoryFlat) {
  const StripeFolder data;
  RecordingBackend recorder(backend_of(reference_device));
  const ReferenceStandIn stand_in(recorder);
  Fed fed(data.config({"device=reference"}),
          {.capture = [&](const std::function<void()>& work) { return recorder.capture(work); }});
  fed.feed(8, 5);
  const int64_t storages = live_storages();
  const int64_t bytes = recorder.memory_stats().allocated;
  fed.feed(8, 10);
  EXPECT_EQ(live_storages(), storages);
  EXPECT_EQ(recorder.memory_stats().allocated, bytes);
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

void poison(const TestRun& run, const std::string& name) {
  for (const auto& parameter : run.experiment.arena->parameters()) {
    if (parameter->name() != name) continue;
    std::vector<float> values = run.experiment.arena->read(*parameter);
    values[0] = std::nanf("");
    run.experiment.arena->write(*parameter, values);
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
        poison(run, "dense.weight");
      };
      try {
        run.train();
        ADD_FAILURE() << "finished";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::diverged);
        EXPECT_THAT(error.what(), HasSubstr(place));
        EXPECT_THAT(error.what(), HasSubstr("the loss is NaN or Inf; first seen in the weights "
                                            "dense.weight"));
      }
      EXPECT_EQ(run.experiment.arena->read(*first), good);
      EXPECT_EQ(run.recorder.steps.back().step, 10);  // it went on to the end of the epoch
      EXPECT_EQ(load_last(run.folder.last()).state.step, 5);
    }
  }
}

}  // namespace
}  // namespace whisker::test
