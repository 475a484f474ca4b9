// histograms.jsonl: what is recorded, that recording changes nothing, no row twice, and what its
// reader refuses.
#include "train/loop/step_histograms.h"

#include "core/io/file.h"
#include "tests/support/error_of.h"
#include "tests/support/tiny_sequences.h"
#include "tests/support/training_on.h"

#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::vector<HistogramRow> rows_of(const fs::path& run) {
  std::vector<HistogramRow> rows;
  read_histograms(run / "histograms.jsonl", [&](HistogramRow row) { rows.push_back(row); });
  return rows;
}

std::vector<int64_t> steps_of(const fs::path& run) {
  std::vector<int64_t> steps;
  for (const HistogramRow& row : rows_of(run)) steps.push_back(row.step);
  return steps;
}

using StepHistogramsOn = TrainingOn;
INSTANTIATE_TEST_SUITE_P(, StepHistogramsOn, testing::ValuesIn(network_devices),
                         [](const auto& device) { return test_name(device.param); });

TEST_P(StepHistogramsOn, TrainTheSameBitForBit) {
  std::vector<std::vector<std::string>> runs = {
      lively_overrides(), {"train.accumulate=2"}, {"precision=f32"}};
  if (GetParam() != reference_device) runs.push_back({"precision=bf16"});
  for (std::vector<std::string> overrides : runs) {
    overrides.emplace_back("deterministic=true");
    TestRun plain(config(overrides));
    plain.train();
    EXPECT_FALSE(fs::exists(plain.folder.histograms_path()));
    overrides.emplace_back("train.histogram_every=2");
    TestRun recorded(config(overrides));
    recorded.train();
    EXPECT_EQ(hash_of(recorded.experiment), hash_of(plain.experiment)) << overrides[0];
    EXPECT_EQ(metrics_without_times(recorded.folder.path()),
              metrics_without_times(plain.folder.path()));
    EXPECT_GE(steps_of(recorded.folder.path()).size(), 2U) << overrides[0];
  }
}

TEST(StepHistograms, AreOfEveryLayerAndParameter) {
  const StripeFolder data;  // 5 batches an epoch
  TestRun run(data.config({"train.histogram_every=4", "train.epochs=2"}));
  const std::vector<float> start =
      run.experiment.arena->read(parameter_named(run.experiment, "conv2d.weight"));
  std::vector<float> then;
  run.recorder.each_step = [&](const StepEvent& event) {
    if (event.step != 1) return;
    then = run.experiment.arena->read(parameter_named(run.experiment, "conv2d.weight"));
  };
  run.train();
  const std::vector<HistogramRow> rows = rows_of(run.folder.path());
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_THAT(steps_of(run.folder.path()), ElementsAre(1, 5, 9));
  EXPECT_EQ(rows[2].epoch, 2);
  EXPECT_EQ(rows[0].examples, 8);
  for (const HistogramRow& row : rows) {
    for (const LayerHistograms& one : row.layers) {
      EXPECT_TRUE(one.gradients) << one.layer;
      EXPECT_GT(one.activations.statistics.norm, 0) << one.layer;
    }
    ASSERT_EQ(row.parameters.size(), rows[0].parameters.size());
    for (const ParameterHistograms& one : row.parameters) EXPECT_TRUE(one.gradients) << one.name;
  }
  const auto& weight = rows[0].parameters[0];
  ASSERT_EQ(weight.name, "conv2d.weight");
  double update = 0, norm = 0;
  for (size_t i = 0; i < start.size(); ++i) {
    update += std::pow(double{then[i]} - double{start[i]}, 2);
    norm += std::pow(double{start[i]}, 2);
  }
  EXPECT_NEAR(*weight.update_ratio, std::sqrt(update / norm), 1e-12);
  EXPECT_EQ(HistogramRow::read(rows[1].json(), "x").json(), rows[1].json());
}

// The gradients are those of the batch's mean loss, whatever its weight in an update or a scale.
TEST(StepHistograms, GradientsAreOfTheMeanLoss) {
  const StripeFolder data;
  const auto gradient = [&](const std::vector<std::string>& overrides) {
    TestRun run(data.config(overrides));
    run.train();
    return rows_of(run.folder.path()).at(0).layers.back().gradients->statistics.norm;
  };
  const double alone = gradient({"train.histogram_every=9", "optimizer.lr=1e-30"});
  const double second =
      gradient({"train.histogram_every=9", "optimizer.lr=1e-30", "train.accumulate=5"});
  EXPECT_GT(alone, 0);
  EXPECT_LT(std::abs(std::log(second / alone)), std::log(2));  // another batch, not a fifth of it
}

TEST(StepHistograms, CountsDeadUnits) {
  const StripeFolder data;
  Config config = data.config({"train.histogram_every=1", "train.epochs=1"});
  config.model = YamlNode::parse(
      "layers: [conv2d: {filters: 6, kernel: 3, activation: relu}, global_avg_pool2d, dense: "
      "{units: classes}]",
      "test");
  TestRun run(config);
  std::vector<float> bias(6, 1e3F);
  bias[1] = bias[4] = -1e6F;
  run.experiment.arena->write(parameter_named(run.experiment, "conv2d.bias"), bias);
  run.train();
  const LayerHistograms layer = rows_of(run.folder.path()).at(0).layers.at(0);
  EXPECT_EQ(layer.units, 6);
  EXPECT_EQ(layer.dead_units, 2);
  EXPECT_EQ(layer.activations.statistics.zeros * 3, layer.activations.count);
}

TEST(StepHistograms, RunUncapturedAndOfSequences) {
  const StripeFolder images;
  int captures = 0;
  TestRun captured(images.config({"train.histogram_every=4", "train.epochs=4"}), std::nullopt,
                   rerun(&captures));
  captured.train();
  EXPECT_GT(captures, 0);
  EXPECT_THAT(steps_of(captured.folder.path()), ElementsAre(1, 5, 9, 13, 17));
  const TemporaryFolder folder;
  write_two_languages(folder);
  for (const Config& config :
       {text_config(folder), language_config(folder), series_config(folder)}) {
    Config recorded = config;
    recorded.train.histogram_every = 3;
    recorded.train.epochs = 1;
    TestRun run(recorded);
    run.train();
    EXPECT_GE(rows_of(run.folder.path()).size(), 1U);
    EXPECT_FALSE(rows_of(run.folder.path()).at(0).layers.empty());
  }
}

TEST(StepHistograms, ProfiledStepsAreSaidToBeLeftOut) {
  const StripeFolder data;
  TestRun run(data.config({"train.histogram_every=1", "train.profile=100", "train.epochs=1"}));
  run.train();
  EXPECT_THAT(run.recorder.messages,
              testing::Contains(HasSubstr("and others that train.profile times are not in")));
  EXPECT_FALSE(fs::exists(run.folder.histograms_path()));
}

TEST(StepHistograms, NoRowTwiceAfterAResume) {
  const StripeFolder data;
  const Config config = data.config({"train.histogram_every=2", "checkpoint.every=4"});
  TestRun whole(config);
  whole.train();
  const std::string expected = read_file(whole.folder.histograms_path(), 1 << 24, ErrorKind::data);
  const fs::path run = stopped_at(config, 8);
  {  // what a run that was killed later had written, and half a row
    std::ofstream more(run / "histograms.jsonl", std::ios::app);
    std::istringstream rows(expected);
    for (std::string line; std::getline(rows, line);) {
      if (HistogramRow::read(line, "").step > 8) more << line << '\n';
    }
    more << "{\"version\":1,\"st";
  }
  TestRun resumed(config, run);
  resumed.train();
  EXPECT_EQ(read_file(run / "histograms.jsonl", 1 << 24, ErrorKind::data), expected);
  fs::remove(run / "histograms.jsonl");
  const fs::path other = stopped_at(config, 8);
  fs::remove(other / "histograms.jsonl");  // who needs the room loses the rows, not the run
  TestRun again(config, other);
  again.train();
  EXPECT_EQ(steps_of(other).front(), 9);
}

TEST(StepHistograms, HostileRowsAreRefusedWithTheirPlace) {
  const StripeFolder data;
  TestRun run(data.config({"train.histogram_every=4", "train.epochs=2"}));
  run.train();
  const fs::path file = run.folder.histograms_path();
  const std::string good = read_file(file, 1 << 24, ErrorKind::data);
  const auto message = [&](const std::string& content) {
    std::ofstream(file, std::ios::binary) << content;
    return message_of(ErrorKind::data, [&] { read_histograms(file, [](const HistogramRow&) {}); });
  };
  const std::string first = good.substr(0, good.find('\n') + 1);
  EXPECT_THAT(message(first + first), HasSubstr(":2: expected a step above 1, got 1"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = first;
    changed.replace(changed.find(from), from.size(), to);
    return message(changed);
  };
  EXPECT_THAT(with("\"version\":1", "\"version\":2"), HasSubstr("version 2 is not supported"));
  EXPECT_THAT(with("\"count\":", "\"count\":-"), HasSubstr("count"));
  EXPECT_THAT(with("\"histogram\":[", "\"histogram\":[0,"), HasSubstr("histogram: expected 32"));
  EXPECT_THAT(with("\"zeros\":", "\"zeros\":99999999"), HasSubstr("zeros"));
  EXPECT_THAT(with("{\"version\"", "[[[[[[[["), HasSubstr(":1"));
  uint64_t state = 7;
  for (int i = 0; i < 300; ++i) {  // whatever the bytes, rows or one error
    std::string changed = good;
    for (int k = 0; k < 3; ++k) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      changed[(state >> 33) % changed.size()] = static_cast<char>(state >> 25);
    }
    std::ofstream(file, std::ios::binary) << changed;
    try {
      read_histograms(file, [](const HistogramRow&) {});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data) << error.what();
    }
  }
  std::ofstream(file, std::ios::binary) << good.substr(0, good.size() - 1);  // being written
  int rows = 0;
  read_histograms(file, [&](const HistogramRow&) { ++rows; });
  EXPECT_EQ(rows, 2);
}

}  // namespace
}  // namespace whisker::test
