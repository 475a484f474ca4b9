// Accumulated batches train as PyTorch's big batch does: in parts of equal and of unequal size,
// with class weights, clipping, and an epoch's last update of fewer batches.
#include "tests/support/image_files.h"
#include "tests/support/json_fixture.h"
#include "tests/support/overrides.h"
#include "tests/support/tiny_sequences.h"
#include "tests/support/tiny_training.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

constexpr int colours = 25;  // of class a the first 20

// Images of one colour, so that their mean is what the network computes with.
void write_colours(const std::filesystem::path& dir) {
  for (int i = 0; i < colours; ++i) {
    const bool b = i >= 20;
    const int shade[] = {37 * i % 256, (91 * i + (b ? 40 : 0)) % 256,
                         (53 * i + (b ? 128 : 0)) % 256};
    const Buffer file =
        write_png({.width = 4, .height = 4}, [&](int, int, int channel) { return shade[channel]; });
    std::filesystem::create_directories(dir / (b ? "b" : "a"));
    std::ofstream out(dir / (b ? "b" : "a") / fmt::format("{:02}.png", i), std::ios::binary);
    out.write(reinterpret_cast<const char*>(file.data()),
              static_cast<std::streamsize>(file.size()));
  }
}

// As in scripts/make_accumulated_batches.py: all parameters in order, k-th value
// ((7k mod 13) - 6) / 8.
void set_weights(const Experiment& experiment) {
  int k = 0;
  for (const auto& parameter : experiment.arena->parameters()) {
    std::vector<float> values(static_cast<size_t>(parameter->shape().count()));
    for (float& value : values) value = static_cast<float>(7 * k++ % 13 - 6) / 8;
    experiment.arena->write(*parameter, values);
  }
}

TEST(AccumulatedBatches, TrainAsPyTorchsBigBatch) {
  const TemporaryFolder folder;
  write_colours(folder / "train");
  const JsonValue fixture =
      json_fixture(WHISKER_SOURCE_DIR "/tests/train/loop/accumulated_batches.json");
  const auto texts = [](const JsonValue& list) {
    Overrides overrides;
    for (const JsonValue& item : list.items()) overrides.push_back(item.as_string());
    return overrides;
  };
  for (const JsonValue& one : fixture.at("cases").items()) {
    for (const JsonValue& batches : one.at("batches").items()) {
      const Overrides overrides = joined(texts(one.at("overrides")), texts(batches));
      TestRun run(read_config_text(
          R"(device: cpu
data: {image_size: 4, decode: exact, sampling: sequential, workers: 0}
model: [global_avg_pool2d, {dense: {units: 4, activation: tanh}}, {dense: {units: classes}}]
train: {epochs: 2}
)",
          "colours.yaml",
          joined({"data.train=" + (folder / "train").string(),
                  "data.val=" + (folder / "train").string(), "runs=" + (folder / "runs").string()},
                 overrides)));
      set_weights(run.experiment);
      run.train();
      const std::vector<double> want = numbers_of(one.at("weights"));
      const std::vector<double> got = weights_of(run.experiment);
      ASSERT_EQ(got.size(), want.size());
      const bool sgd = overrides.front() == "optimizer.kind=sgd";
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i], want[i], sgd ? 1e-6 : 1e-5)
            << i << " " << fmt::format("{}", fmt::join(overrides, " "));
      }
    }
  }
}

// Without states that are carried, windows of 8, 8 and 4 steps are one of 20.
TEST(AccumulatedBatches, TokensOfALanguageModelWeighAlike) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 41; ++i) text += "abcab"[i * i % 5];  // two rows of 20 predictions each
  folder.write("short.txt", text);
  const auto trained = [&](const Overrides& overrides) {
    TestRun run(language_config(
        folder,
        joined({"data.train=" + (folder / "short.txt").string(),
                "data.val=" + (folder / "short.txt").string(), "data.val_split=0",
                "train.batch_size=2", "train.epochs=2", "optimizer.kind=sgd", "optimizer.lr=0.5",
                "model.layers=[{embedding: {input_dim: vocabulary, output_dim: 8}}]"},
               overrides)));
    EXPECT_EQ(run.train().steps, 2);
    return weights_of(run.experiment);
  };
  const std::vector<double> want = trained({"data.text.steps=20"});
  const std::vector<double> got = trained({"data.text.steps=8", "train.accumulate=3"});
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i;
}

TEST(AccumulatedBatches, BatchNormIsOfEachBatchAndSaysSo) {
  const StripeFolder data;
  const auto says = [](const Experiment& experiment) {
    return std::ranges::any_of(experiment.notes, [](const std::string& note) {
      return note.starts_with("train.accumulate: batch_norm normalises each batch of 8");
    });
  };
  EXPECT_TRUE(says(Experiment(data.config({"train.accumulate=2"}))));
  EXPECT_FALSE(says(Experiment(data.config())));
  EXPECT_FALSE(says(Experiment(data.config({"train.accumulate=2", "freeze_norm=true"}))));
}

}  // namespace
}  // namespace whisker::test
