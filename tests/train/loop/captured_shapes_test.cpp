// Which shapes of batches get a graph, and when: those that come again and again.
#include "core/tensor/storage.h"
#include "tests/support/recording_backend.h"
#include "tests/support/tiny_training.h"
#include "train/loop/train_step.h"

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

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

TEST(CapturedShapes, CapturesAShapeThatStaysAndRunsOddOnesEagerly) {
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

TEST(CapturedShapes, ShapesThatTakeTurnsHaveAGraphEach) {
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

TEST(CapturedShapes, OfManyShapesSomeStayCaptured) {
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

TEST(CapturedShapes, RareShapesStayEager) {
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

TEST(CapturedShapes, AShapeThatComesNoMoreMakesRoom) {
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
  fed.feed(2);  // it was dropped
  EXPECT_EQ(fed.step.replays(), 16 + 1000 + 1);
}

TEST(CapturedShapes, CapturesEachPartOfAnAccumulatedStep) {
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

TEST(CapturedShapes, TheLastBatchOfTheWarmUpIsTheFirstReplay) {
  const StripeFolder data;
  for (const int accumulate : {1, 3}) {
    int captures = 0;
    Fed fed(data.config({fmt::format("train.accumulate={}", accumulate)}), rerun(&captures));
    fed.feed(8, static_cast<int>(fed.step.warm_up_batches()) - 1);
    EXPECT_EQ(fed.step.replays(), 0) << accumulate;
    EXPECT_EQ(captures, 0) << accumulate;
    fed.feed(8);
    EXPECT_EQ(fed.step.replays(), 1) << accumulate;
  }
  EXPECT_EQ(Fed(data.config(), {}).step.warm_up_batches(), 1)
      << "of the host, which captures nothing";
}

TEST(CapturedShapes, DoesWithoutGraphsWhereThereAreNoneOrNotWanted) {
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

TEST(CapturedShapes, ReplaysKeepMemoryFlat) {
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

}  // namespace
}  // namespace whisker::test
