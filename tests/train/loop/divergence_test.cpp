// A NaN or Inf, wherever it comes up, ends the run before anything is saved; the message names
// the first tensor that held one.
#include "tests/support/error_of.h"
#include "tests/support/tiny_sequences.h"
#include "tests/support/training_on.h"
#include "train/loop/find_non_finite.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

/// Trains, and returns the message of the divergence that must end it.
std::string diverges(TestRun& run) {
  const std::string message = message_of(ErrorKind::diverged, [&] { run.train(); });
  EXPECT_NE(message, "no error");
  return message;
}

/// Every f32 value of every weights file of a run is finite; returns the number of files.
int expect_finite_files(const fs::path& folder) {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    if (entry.path().stem() == "non_finite") continue;  // the step that failed, for study nan
    const SafetensorsFile file = SafetensorsFile::open(entry.path());
    for (const SafetensorsTensor& tensor : file.tensors()) {
      if (tensor.dtype != DType::f32) continue;
      for (size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, tensor.bytes.data() + at, sizeof value);
        EXPECT_TRUE(std::isfinite(value)) << entry.path() << " " << tensor.name;
        if (!std::isfinite(value)) return files;
      }
    }
    ++files;
  }
  return files;
}

using DivergenceOn = TrainingOn;
INSTANTIATE_TEST_SUITE_P(, DivergenceOn, testing::ValuesIn(network_devices),
                         [](const auto& device) { return test_name(device.param); });

TEST_P(DivergenceOn, NamesThePoisonedWeightAndKeepsTheLastGoodFile) {
  int injected = 0;
  for (int64_t at = 1; at <= 20; at += on_gpu() ? 5 : 1) {
    const char* const precision = on_gpu() && at % 4 < 2 ? "precision=bf16" : "precision=f32";
    TestRun run(config({"train.epochs=5", "ema.decay=0.9", precision}));
    // Alternately a convolution's weight and a statistic of the batch_norm.
    const std::string name = at % 2 == 0 ? "conv2d_1.weight" : "batch_norm.running_var";
    run.recorder.each_step = [&](const StepEvent& event) {
      if (event.step == at) poison(run.experiment, name, at % 3 == 0 ? INFINITY : NAN);
    };
    const std::string message = diverges(run);
    const std::string kind = at % 2 == 0 ? "the weights " : "the running statistic ";
    EXPECT_THAT(message, HasSubstr(kind + name)) << "step " << at << " " << precision;
    expect_finite_files(run.folder.path());
    if (at > 5) {  // a whole epoch was saved before
      EXPECT_EQ(load_last(run.folder.last()).state.step, (at - 1) / 5 * 5) << at;
    }
    ++injected;
  }
  TestRun control(config({"train.epochs=5", "ema.decay=0.9"}));  // nothing injected: to its end
  EXPECT_EQ(control.train().reason, StopReason::finished);
  fmt::print("{}: NaN or Inf injected at {} steps\n", GetParam().str(), injected);
}

TEST_P(DivergenceOn, HugeLearningRate) {
  for (const char* rate : {"optimizer.lr=1e30", "optimizer.lr=1e38"}) {
    TestRun run(config({rate, "optimizer.kind=sgd", "checkpoint.every=1"}));
    EXPECT_THAT(diverges(run), HasSubstr("Lower optimizer.lr"));
    expect_finite_files(run.folder.path());
  }
}

std::map<std::string, std::vector<double>> values_of(const CarriedStates& states) {
  std::map<std::string, std::vector<double>> values;
  for (const auto& [path, state] : states) {
    values[path + " h"] = state.h.to_vector();
    values[path + " c"] = state.c.to_vector();
  }
  return values;
}

// A language model's batch begins with states: the search for what failed does so, too.
TEST(Divergence, TheSearchBeginsWithTheCarriedStates) {
  const TemporaryFolder folder;
  const Config config = language_config(folder);
  for (const char* poisoned : {"dense.bias", "lstm"}) {
    Experiment experiment(config);
    TrainStep step(experiment);
    step.begin({});
    experiment.train->start_epoch(0);
    int64_t number = 0;
    const auto run = [&] {
      const std::optional<Batch> batch = experiment.train->next();
      step.run(*batch, {.number = ++number, .learning_rate = 0.01});
      return *batch;
    };
    for (int i = 0; i < 3; ++i) run();
    const bool state = poisoned == std::string("lstm");
    if (!state) poison(experiment, poisoned, NAN);
    if (state) step.states().at("lstm").c.fill_(INFINITY);
    const auto before = values_of(step.states());
    EXPECT_NE(before.at("lstm h"), std::vector<double>(before.at("lstm h").size(), 0));
    const Batch failed = run();
    ASSERT_TRUE(failed.continues);
    // tanh hides a state from the loss.
    EXPECT_EQ(step.read().failure, state ? StepFailure::gradient : StepFailure::loss);
    run();  // as a GPU's steps go on until they are read
    EXPECT_EQ(values_of(step.states()), before) << "not those that the failed batch began with";
    EXPECT_THAT(find_culprit(experiment, 4, &failed, step.states()).text, HasSubstr(poisoned));
    EXPECT_THAT(find_culprit(experiment, 4, nullptr, step.states()).text, HasSubstr(poisoned));
    // Control: without them the state's fault is not found.
    if (state) {
      EXPECT_THAT(find_culprit(experiment, 4, &failed).text, Not(HasSubstr("lstm")));
    }
  }
}

// Weights that turned infinite in the step itself are seen before they are saved.
TEST_P(DivergenceOn, NothingIsSavedUnseen) {
  TestRun run(config({"checkpoint.every=1"}));
  run.recorder.each_step = [&](const StepEvent& event) {
    if (event.step == 3) poison(run.experiment, "conv2d.weight", NAN);
  };
  EXPECT_THAT(diverges(run),
              HasSubstr("a tensor about to be saved is NaN or Inf; first seen in the weights "
                        "conv2d.weight"));
  EXPECT_EQ(load_last(run.folder.last()).state.step, 2);
  EXPECT_EQ(expect_finite_files(run.folder.path()), 2);
}

TEST(Divergence, TensorsOfACheckpointAreNamedByTheirKind) {
  const StripeFolder data;
  const TestRun run(data.config({"ema.decay=0.9"}));
  const ParameterArena& arena = *run.experiment.arena;
  EXPECT_EQ(saved_tensor_text(arena, "conv2d.weight"), "the weights conv2d.weight");
  EXPECT_EQ(saved_tensor_text(arena, "batch_norm.running_mean"),
            "the running statistic batch_norm.running_mean");
  EXPECT_EQ(saved_tensor_text(arena, "ema.conv2d.weight"),
            "the average of the weights conv2d.weight");
  EXPECT_EQ(saved_tensor_text(arena, "m.conv2d.weight"), "the optimizer's state m.conv2d.weight");
}

// A resume from the last good file goes on as if nothing had happened.
TEST_P(DivergenceOn, ResumesFromTheLastGoodFile) {
  const Config same = config({"deterministic=true"});
  const std::string expected = hash_of_run(same);
  fs::path folder;
  {
    TestRun run(same);
    folder = run.folder.path();
    run.recorder.each_step = [&](const StepEvent& event) {
      if (event.step == 8) poison(run.experiment, "dense.weight", NAN);
    };
    diverges(run);
  }
  EXPECT_EQ(hash_of_run(same, folder), expected);
}

TEST_P(DivergenceOn, IsLookedForInOrder) {
  TestRun run(config());
  run.experiment.train->start_epoch(0);
  Batch batch = *run.experiment.train->next();
  const Pass pass{.training = true};
  EXPECT_EQ(find_non_finite(run.experiment, batch, pass),
            "the sum of squared gradients, which overflowed");
  poison(run.experiment, "conv2d_1.weight", 3e38F);  // finite, but its products are not
  EXPECT_THAT(find_non_finite(run.experiment, batch, pass), HasSubstr("operator"));
  poison(run.experiment, "dense.bias", NAN);
  EXPECT_EQ(find_non_finite(run.experiment, batch, pass), "the weights dense.bias");
  batch.inputs.fill_(std::numeric_limits<double>::infinity());
  EXPECT_EQ(find_non_finite(run.experiment, batch, pass), "the inputs");
}

}  // namespace
}  // namespace whisker::test
