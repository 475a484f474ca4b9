// non_finite.safetensors: a run that diverges keeps its step, which runs again without the data.
#include "train/loop/failed_step.h"

#include "core/io/file.h"
#include "core/trace/non_finite_origin.h"
#include "tests/support/error_of.h"
#include "tests/support/tiny_sequences.h"
#include "tests/support/training_on.h"

#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;
using Where = NonFiniteOrigin::Where;

struct Found {
  Recording recording;
  NonFiniteOrigin origin;
  std::string label() const { return recording.label(origin.entry); }
  const std::string& layer() const { return recording.entries[origin.entry].layer; }
  std::string reason() const { return origin.reasons(recording).front(); }
};

Found found_in(const KeptStep& kept, Device device = cpu_device) {
  Recording recording = kept.run(device, DType::f32);
  const std::optional<NonFiniteOrigin> origin = NonFiniteOrigin::of(recording);
  if (!origin) throw std::runtime_error("the step is finite");
  return {std::move(recording), *origin};
}

/// The step that a run which must diverge has kept.
KeptStep kept_by(TestRun& run) {
  EXPECT_NE(message_of(ErrorKind::diverged, [&] { run.train(); }), "no error");
  EXPECT_THAT(run.recorder.messages, Contains(HasSubstr("kept the step that failed in ")));
  return KeptStep(run.folder.failed_step());
}

using FailedStepOn = TrainingOn;
INSTANTIATE_TEST_SUITE_P(, FailedStepOn, testing::ValuesIn(network_devices),
                         [](const auto& device) { return test_name(device.param); });

TEST_P(FailedStepOn, AnExplodingLearningRate) {
  TestRun run(config({"optimizer.lr=1e38", "optimizer.kind=sgd"}));
  const KeptStep kept = kept_by(run);
  EXPECT_EQ(kept.step().device, GetParam().str());
  const Found found = found_in(kept);  // on the CPU, wherever it was
  EXPECT_NE(found.origin.where, Where::operand);
  EXPECT_THAT(found.reason(), HasSubstr("the largest f32"));
  EXPECT_THAT(kept.place_of("conv2d"), HasSubstr("config.yaml:"));
  const fs::path yaml = run.folder.path() / "config.yaml";
  std::ofstream(yaml) << "model: resnet18\n";  // no longer the run's
  EXPECT_THAT(KeptStep(run.folder.failed_step()).place_of("conv2d"),
              HasSubstr("non_finite.safetensors: config:"));
}

TEST_P(FailedStepOn, WeightsAndABatchInBf16) {
  if (GetParam() == reference_device) GTEST_SKIP();
  TestRun run(config({"precision=bf16", "checkpoint.every=2"}));
  run.recorder.each_step = [&](const StepEvent& event) {
    if (event.step == 3) poison(run.experiment, "conv2d_1.weight", NAN);
  };
  const KeptStep kept = kept_by(run);
  EXPECT_EQ(kept.step().precision, DType::bf16);
  EXPECT_EQ(kept.step().batch, 4);
  EXPECT_THAT(kept.damaged_weights(), ElementsAre("conv2d_1.weight"));
  const Recording again = kept.run(cpu_device, DType::bf16);
  EXPECT_EQ(again.label(NonFiniteOrigin::of(again)->entry), "conv2d_1.weight");
}

TEST(FailedStep, OfAResumedRunIsItsOwn) {
  const StripeFolder data;
  const Config config = data.config(lively_overrides());
  const fs::path folder = stopped_at(config, 7);
  TestRun run(config, folder);
  run.recorder.each_step = [&](const StepEvent& event) {
    if (event.step == 8) poison(run.experiment, "conv2d.weight", INFINITY);
  };
  const KeptStep kept = kept_by(run);
  EXPECT_EQ(kept.step().step, 9);
  EXPECT_EQ(kept.step().epoch, 3);
  EXPECT_EQ(found_in(kept).label(), "conv2d.weight");
}

// The rerun has the run's own bits: its dropout, its batch statistics and its batch.
TEST(FailedStep, RunsAgainBitForBit) {
  const StripeFolder data;
  Config config = data.config({"seed=3", "loss.class_weights=balanced", "augment.mixup=0.2"});
  config.model = YamlNode::parse(
      "layers: [conv2d: {filters: 6, kernel: 3}, batch_norm, dropout: 0.5, flatten, dense: {units: "
      "classes}]",
      "test");
  Experiment experiment(config);
  experiment.train->start_epoch(0);
  const Batch batch = *experiment.train->next();
  const TemporaryFolder folder;
  const fs::path file = folder / "kept.safetensors";
  keep_failed_step(file, experiment,
                   {.what = "the loss", .found = {}, .epoch = 1, .step = 1, .batch = 5}, batch, {});
  const Recording again = KeptStep(file).run(cpu_device, DType::f32);
  const Pass pass{.training = true, .seed = 3, .step = 5};
  const Tensor loss = experiment.objective->loss(experiment.network->outputs(batch, pass), batch);
  EXPECT_EQ(again.entries[again.backward_order()[0]].outputs[0].value.all, loss.to_vector());
  EXPECT_FALSE(NonFiniteOrigin::of(again));
  batch.inputs.fill_(NAN);
  keep_failed_step(file, experiment,
                   {.what = "the loss", .found = {}, .epoch = 1, .step = 1, .batch = 5}, batch, {});
  const KeptStep kept(file);
  EXPECT_EQ(found_in(kept).origin.where, Where::operand);
  EXPECT_EQ(found_in(kept).label(), "inputs");
  EXPECT_EQ(kept.damaged_rows(), batch.indices);
}

TEST(FailedStep, OfSequencesWithTheirStates) {
  const TemporaryFolder folder;
  write_two_languages(folder);
  for (const Config& one : {text_config(folder), language_config(folder), series_config(folder)}) {
    TestRun run(one);
    std::string name;
    run.recorder.each_step = [&](const StepEvent& event) {
      if (event.step != 2) return;
      name = run.experiment.arena->parameters().back()->name();
      poison(run.experiment, name, INFINITY);
    };
    const KeptStep kept = kept_by(run);
    EXPECT_EQ(found_in(kept).label(), name);
  }
}

TEST(FailedStep, WithoutABatchAndWithoutRoom) {
  const StripeFolder data;
  TestRun run(data.config({"checkpoint.every=1"}));
  run.recorder.each_step = [&](const StepEvent& event) {
    if (event.step == 3) poison(run.experiment, "conv2d.weight", NAN);
  };
  const KeptStep kept = kept_by(run);
  EXPECT_FALSE(kept.has_batch()) << "found when it was about to be saved";
  EXPECT_THAT(kept.damaged_weights(), ElementsAre("conv2d.weight"));
  TestRun full(data.config({"optimizer.lr=1e38", "optimizer.kind=sgd"}));
  fs::create_directory(full.folder.failed_step());
  EXPECT_THAT(message_of(ErrorKind::diverged, [&] { full.train(); }),
              HasSubstr("training diverged"));
  EXPECT_THAT(full.recorder.messages,
              Contains(HasSubstr("the step that failed is not kept for study nan: ")));
}

TEST(FailedStep, ASearchThatFailsHidesNoDivergence) {
  const StripeFolder data;  // 5 batches an epoch
  TestRun run(data.config({"optimizer.lr=1e38", "optimizer.kind=sgd", "train.log_every=1000"}),
              std::nullopt, {.late_reading = true});
  run.recorder.each_step = [&](const StepEvent& event) {
    if (event.step == 5) fs::remove_all(data / "train");
  };
  EXPECT_THAT(message_of(ErrorKind::diverged, [&] { run.train(); }),
              HasSubstr("first seen in a step that could not be run again ("));
  EXPECT_FALSE(KeptStep(run.folder.failed_step()).has_batch());
}

TEST(FailedStep, OtherFilesAreRefused) {
  const StripeFolder data;
  TestRun run(data.config({"optimizer.lr=1e38", "optimizer.kind=sgd"}));
  kept_by(run);
  const fs::path file = run.folder.failed_step();
  const std::string good = read_file(file, 1 << 24, ErrorKind::data);
  uint64_t state = 5;
  for (int i = 0; i < 200; ++i) {
    std::string changed = good;
    for (int k = 0; k < 2; ++k) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      changed[(state >> 33) % 3000] = static_cast<char>(state >> 25);
    }
    std::ofstream(file, std::ios::binary) << changed;
    try {
      const KeptStep kept(file);
      if (kept.has_batch()) kept.run(cpu_device, DType::f32);
    } catch (const Error&) {  // of whichever kind: said, and nothing worse
    }
  }
  std::ofstream(file, std::ios::binary) << good.substr(0, good.size() / 2);
  message_of(ErrorKind::checkpoint, [&] { KeptStep{file}; });
}

}  // namespace
}  // namespace whisker::test
