// Every preset for images trains on the CPU and is exported, small images and all. Its numbers are
// compared in tests/layers/backbones_test.cpp.
#include "core/io/hash.h"
#include "layers/builder/presets.h"
#include "tests/support/error_of.h"
#include "tests/support/tiny_training.h"
#include "train/loop/train_step.h"
#include "train/onnx/export_onnx.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

std::vector<std::string> image_presets() {
  std::vector<std::string> names = {"tf_mobilenetv3_small_100"};  // of the others, one alone
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  std::erase_if(names, [](const auto& name) { return name == "simple_rnn" || name == "lstm"; });
  return names;
}

std::map<std::string, std::string> hashes_of_trained(const Experiment& experiment) {
  std::map<std::string, std::string> hashes;
  for (const auto& parameter : experiment.arena->parameters()) {
    if (!parameter->trains()) continue;
    const Tensor& value = parameter->value();
    Hash64 hash;
    hash.update(
        std::span(static_cast<const std::byte*>(value.raw()), static_cast<size_t>(value.bytes())));
    hashes.emplace(parameter->name(), hash.hex());
  }
  return hashes;
}

class EveryPreset : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, EveryPreset, testing::ValuesIn(image_presets()),
                         [](const auto& name) { return name.param; });

TEST_P(EveryPreset, TrainsTwoStepsAndIsExported) {
  const std::string& name = GetParam();
  const bool large = name == "vgg16" || name == "vit_b_16";
  if (large && !std::getenv("WHISKER_LONG")) GTEST_SKIP() << "takes seconds: WHISKER_LONG=1";
  const StripeFolder data(2, 2, 1);
  Experiment experiment(data.config({"model=" + name, "data.image_size=64", "train.batch_size=2",
                                     "data.workers=0", "optimizer.lr=0.001"}));
  const std::map<std::string, std::string> before = hashes_of_trained(experiment);
  TrainStep step(experiment);
  experiment.train->start_epoch(0);
  for (int64_t number = 1; number <= 2; ++number) {
    step.run(*experiment.train->next(), {.number = number, .learning_rate = 0.001});
  }
  const StepState state = step.read();
  EXPECT_EQ(state.steps, 2);
  EXPECT_EQ(state.totals.rows, 4);
  EXPECT_TRUE(std::isfinite(state.totals.loss) && state.totals.loss > 0) << state.totals.loss;
  for (const auto& [parameter, hash] : hashes_of_trained(experiment)) {
    EXPECT_NE(hash, before.at(parameter)) << parameter << " was not trained";
  }

  int64_t elements = 0;
  for (const auto& parameter : experiment.arena->parameters()) {
    elements += parameter->shape().count();
  }
  std::string onnx;
  const std::string error =
      message_of(ErrorKind::usage, [&] { onnx = export_onnx(*experiment.network); });
  if (error.find("built without ONNX") != error.npos) return;
  EXPECT_EQ(error, "no error");
  EXPECT_GT(static_cast<double>(onnx.size()), 0.95 * 4 * static_cast<double>(elements))
      << "all weights, but for position embeddings of this image size";
}

}  // namespace
}  // namespace whisker::test
