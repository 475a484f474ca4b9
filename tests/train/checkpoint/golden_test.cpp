// What released versions wrote loads for ever. tests/golden/N holds the files of format N as
// scripts/make_golden.py made them, and what Python read in them.
#include "core/autograd/autograd.h"
#include "core/io/file.h"
#include "core/io/json.h"
#include "tests/support/error_of.h"
#include "tests/support/tiny_training.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

namespace fs = std::filesystem;

const JsonLimits as_data{.name = "golden"};

std::string text_of(const fs::path& path) {
  return read_file(path, 1 << 20, ErrorKind::data);
}

std::vector<fs::path> golden_sets() {
  std::vector<fs::path> sets;
  for (const auto& entry : fs::directory_iterator(WHISKER_SOURCE_DIR "/tests/golden")) {
    sets.push_back(entry.path());
  }
  std::ranges::sort(sets);
  return sets;
}

class Golden : public testing::TestWithParam<fs::path> {
 protected:
  fs::path folder() const { return GetParam(); }
  Config config(const std::vector<std::string>& overrides = {}) const {
    return read_config((folder() / "config.yaml").string(), overrides, OtherTrain::keeps_val);
  }
  // The configuration of the run on images of today.
  Config config_on(const StripeFolder& data) const {
    return config(
        {"data.train=" + (data / "train").string(), "data.val=" + (data / "val").string()});
  }

  JsonValue expected_ = JsonValue::parse(text_of(folder() / "expected.json"), as_data);
};

// Reads `what` ("best", "model", "optimizer") and compares shapes and sums.
void expect_tensors(const SafetensorsFile& file, const JsonValue& expected) {
  EXPECT_EQ(file.tensors().size(), expected.members().size());
  for (const auto& [name, tensor] : expected.members()) {
    const auto* found = file.find(name);
    ASSERT_NE(found, nullptr) << name;
    std::vector<int64_t> shape;
    for (const JsonValue& extent : tensor.at("shape").items()) shape.push_back(extent.as_int());
    EXPECT_EQ(std::vector<int64_t>(found->shape.begin(), found->shape.end()), shape) << name;
  }
}

TEST_P(Golden, WeightsClassify) {
  const Network network = Network::load(folder() / "best.safetensors", cpu_device);
  EXPECT_EQ(network.classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(network.preprocess().output(), (ImageSize{16, 16}));
  if (folder().filename() == "1") {  // made before data.rules: decodes as then
    EXPECT_EQ(network.preprocess().rules, DecodeRules{.version = 1});
    EXPECT_EQ(config().data.rules, 1);
  }
  expect_tensors(SafetensorsFile::open(folder() / "best.safetensors"), expected_.at("best"));
  const NoGrad no_grad;
  const auto logits = network.outputs(zeros({1, 16, 16, 3})).to_vector();
  const auto& wanted = expected_.at("logits_of_black").items();
  ASSERT_EQ(logits.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(logits[i], wanted[i].as_double(), 1e-5);
}

TEST_P(Golden, CheckpointRestores) {
  const StripeFolder data;
  Experiment experiment(config_on(data));
  const LoadedCheckpoint checkpoint = load_last(folder() / "last");
  EXPECT_EQ(checkpoint.state.step, expected_.at("step").as_int());
  expect_tensors(checkpoint.model, expected_.at("model"));
  expect_tensors(checkpoint.optimizer, expected_.at("optimizer"));
  restore(checkpoint, *experiment.arena, *experiment.optimizer, experiment.average.get());
  const auto expect_sum = [&](const std::vector<float>& values, const char* file,
                              const std::string& name) {
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    EXPECT_NEAR(sum, expected_.at(file).at(name).at("sum").as_double(), 1e-6) << name;
  };
  for (const auto& parameter : experiment.arena->parameters()) {
    expect_sum(experiment.arena->read(*parameter), "model", parameter->name());
    if (!parameter->trainable()) continue;
    for (const Optimizer::Moment& moment : experiment.optimizer->moments()) {
      expect_sum(experiment.arena->read(moment.flat, *parameter), "optimizer",
                 fmt::format("{}.{}", moment.name, parameter->name()));
    }
    expect_sum(experiment.arena->read(experiment.average->flat(), *parameter), "optimizer",
               "ema." + parameter->name());
  }
}

// Keys that came after the run was made have their defaults in it; a key of a later version is none
// that this one could keep.
TEST_P(Golden, ConfigurationIsTheRunsStill) {
  const std::string before = load_last(folder() / "last").state.config;
  EXPECT_EQ(changed_on_resume(before, config({"train.epochs=9", "data.train=elsewhere"})), "");
  EXPECT_EQ(changed_on_resume(before, config({"optimizer.lr=0.02"})),
            "optimizer.lr was 0.01, now 0.02");
  std::string older = before;
  const std::string line = "  label_smoothing: 0\n";
  ASSERT_NE(older.find(line), std::string::npos);
  older.erase(older.find(line), line.size());
  EXPECT_EQ(changed_on_resume(older, config()), "");
  EXPECT_EQ(changed_on_resume(older, config({"loss.label_smoothing=0.1"})),
            "loss.label_smoothing was 0, now 0.1");
  EXPECT_THAT(message_of(ErrorKind::checkpoint,
                         [&] { changed_on_resume(before + "of_a_later_version: 1\n", config()); }),
              testing::HasSubstr("of_a_later_version"));
}

TEST_P(Golden, MetricsRead) {
  int64_t lines = 0, epochs = 0, steps = 0;
  std::istringstream text(text_of(folder() / "metrics.jsonl"));
  for (std::string line; std::getline(text, line); ++lines) {
    const JsonValue entry = JsonValue::parse(line, as_data);
    const std::string kind = entry.at("kind").as_string();
    EXPECT_GE(entry.at("step").as_int(), 1);
    EXPECT_GE(entry.at("epoch").as_int(), 1);
    if (kind == "step") {
      ++steps;
      for (const char* key : {"loss", "accuracy", "learning_rate", "gradient_norm", "seconds"}) {
        EXPECT_TRUE(std::isfinite(entry.at(key).as_double())) << key;
      }
    } else if (kind == "epoch") {
      ++epochs;
      for (const char* key : {"train_loss", "train_accuracy", "val_loss", "val_accuracy"}) {
        EXPECT_TRUE(std::isfinite(entry.at(key).as_double())) << key;
      }
    }
  }
  EXPECT_EQ(lines, expected_.at("lines").as_int());
  EXPECT_EQ(static_cast<uint64_t>(text_of(folder() / "metrics.jsonl").size()),
            load_last(folder() / "last").state.metrics_bytes);
  EXPECT_GE(epochs, 2);
  EXPECT_GE(steps, 2);
}

INSTANTIATE_TEST_SUITE_P(, Golden, testing::ValuesIn(golden_sets()),
                         [](const auto& set) { return "Format" + set.param.filename().string(); });

TEST(GoldenFiles, AreThere) {
  fmt::print("sets of golden files: {}\n", golden_sets().size());
  EXPECT_GE(golden_sets().size(), 1U);
}

}  // namespace
}  // namespace whisker::test
