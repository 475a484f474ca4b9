// Whole runs on sequences on a GPU, with recurrent layers that our persistent kernels take:
// captured steps give the eager run bit for bit, over sequences of their own lengths and with
// carried states, and so does a run that was stopped and resumed. Skipped without a GPU.
#include "core/backend/backend.h"
#include "core/nvidia/cuda_library.h"
#include "tests/support/poisoned_memory.h"
#include "tests/support/tiny_sequences.h"
#include "tests/support/tiny_training.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

enum class Kind { words, language };

struct Model {
  const char* name;
  Kind kind;
  const char* layer;
};
constexpr Model models[] = {
    {"lstm", Kind::words, "{lstm: {units: 32, layers: 2}}"},
    {"bidirectional", Kind::words, "{lstm: {units: 32, bidirectional: true}}"},
    {"gru", Kind::words, "{gru: {units: 32}}"},
    {"simple_rnn", Kind::words, "{simple_rnn: {units: 32}}"},
    {"language_lstm", Kind::language, "{lstm: {units: 32, return_sequences: true}}"},
    {"language_gru", Kind::language, "{gru: {units: 32, layers: 2, return_sequences: true}}"},
};

class CudaSequenceTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: no GPU (" << why_no_cuda() << ")";
    write_two_languages(folder_);
    poisoned_.emplace(gpu_);
  }
  Config config(const Model& model, const char* run, const char* graph) const {
    const std::vector<std::string> overrides = {
        fmt::format("name={}_{}", model.name, run),
        fmt::format("device={}", gpu_.str()),
        "precision=bf16",
        "deterministic=true",
        "train.epochs=3",
        "train.log_every=1",
        fmt::format("runtime.graph={}", graph),
        fmt::format("model.layers=[{{embedding: {{input_dim: vocabulary, output_dim: 8}}}}, {}]",
                    model.layer)};
    return model.kind == Kind::words ? text_config(folder_, overrides)
                                     : language_config(folder_, overrides);
  }
  const TemporaryFolder folder_;

 private:
  static constexpr Device gpu_{DeviceKind::cuda, 0};
  std::optional<PoisonedMemory> poisoned_;
};

/// The device's captures, counted.
TrainStepOptions counted(int* captures) {
  return {.capture = [captures](const std::function<void()>& work) {
    ++*captures;
    return backend_of({DeviceKind::cuda, 0}).capture(work);
  }};
}

/// Where two runs part: their first step with other losses, and how far each parameter is apart.
std::string difference(const TestRun& run, const TestRun& expected) {
  std::string text;
  for (const StepEvent& step : run.recorder.steps) {
    const auto same = std::ranges::find(expected.recorder.steps, step.step, &StepEvent::step);
    if (same == expected.recorder.steps.end() || same->loss == step.loss) continue;
    text +=
        fmt::format("first at step {} (epoch {}, batch {}): loss {} instead of {}\n", step.step,
                    step.epoch + 1, step.batch, step.loss.value_or(NAN), same->loss.value_or(NAN));
    break;
  }
  const auto& arena = *run.experiment.arena;
  const auto& expected_arena = *expected.experiment.arena;
  for (size_t i = 0; i < arena.parameters().size(); ++i) {
    const std::vector<float> got = arena.read(*arena.parameters()[i]);
    const std::vector<float> want = expected_arena.read(*expected_arena.parameters()[i]);
    double most = 0, largest = 0;
    for (size_t k = 0; k < got.size(); ++k) {
      most = std::max(most, std::abs(static_cast<double>(got[k]) - static_cast<double>(want[k])));
      largest = std::max(largest, std::abs(static_cast<double>(want[k])));
    }
    if (most == 0) continue;
    text += fmt::format("{}: up to {} apart, values up to {}\n", arena.parameters()[i]->name(),
                        most, largest);
  }
  return text.empty() ? "only in moments" : text;
}

TEST_F(CudaSequenceTraining, CapturedRunsEqualEagerOnes) {
  for (const Model& model : models) {
    TestRun eager(config(model, "eager", "false"));
    eager.train();
    int captures = 0;
    TestRun captured(config(model, "captured", "true"), std::nullopt, counted(&captures));
    captured.train();
    EXPECT_EQ(hash_of(captured.experiment), hash_of(eager.experiment))
        << model.name << "\n"
        << difference(captured, eager);
    EXPECT_EQ(metrics_without_times(captured.folder.path()),
              metrics_without_times(eager.folder.path()))
        << model.name;
    // A graph for each bucket's length, or for the one shape of a text's pieces.
    EXPECT_GE(captures, model.kind == Kind::words ? 3 : 1) << model.name;
  }
}

TEST_F(CudaSequenceTraining, ResumedRunsEqualUninterruptedOnes) {
  for (const Model& model : models) {
    TestRun whole(config(model, "whole", "true"));
    whole.train();
    const int64_t k = whole.experiment.batches_per_epoch() + 5;
    TestRun second(config(model, "parts", "true"), stopped_at(config(model, "parts", "true"), k));
    EXPECT_EQ(second.train().reason, StopReason::finished) << model.name;
    EXPECT_EQ(hash_of(second.experiment), hash_of(whole.experiment)) << model.name << "\n"
                                                                     << difference(second, whole);
  }
}

}  // namespace
}  // namespace whisker::test
