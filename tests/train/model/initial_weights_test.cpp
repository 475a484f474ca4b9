// What is said of weights whose outputs have no names, and of weights of another computation.
#include "core/io/safetensors.h"
#include "tests/support/tiny_sequences.h"
#include "tests/support/tiny_training.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr const char* init_from = "init.from=";

std::string trained(const Config& config) {
  TestRun run(config);
  run.train();
  return run.folder.best().string();
}

// A copy without metadata, as other programs write it.
std::string unnamed_copy(const StripeFolder& data, const std::string& weights) {
  const SafetensorsFile file = SafetensorsFile::open(weights);
  std::vector<SafetensorsEntry> entries;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    entries.push_back(
        {.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = [&tensor] {
           return tensor.bytes;
         }});
  }
  const std::filesystem::path copy = data / "unnamed.safetensors";
  write_safetensors(copy, {}, entries);
  return init_from + copy.string();
}

TEST(InitialWeights, OutputsWithoutNamesAreTakenInTheirOrder) {
  const StripeFolder data;
  const std::string from = unnamed_copy(data, trained(data.config({"train.epochs=1"})));
  const Experiment kept(data.config({from}));
  EXPECT_THAT(kept.notes,
              Contains(HasSubstr("unnamed.safetensors does not name its classes: its outputs, from "
                                 "0 on, are taken for c0, c1 in this order; init.skip=[dense] "
                                 "re-initialises them")));
  const Experiment skipped(data.config({from, "init.skip=[dense]"}));
  EXPECT_THAT(skipped.notes, Not(Contains(HasSubstr("does not name"))));
}

// evaluate takes output 2 for the folder 2, too; the folders are in the order of their bytes.
TEST(InitialWeights, OutputsWithoutNamesAreNumberedFromZero) {
  const StripeFolder data(12, 2, 1);
  for (const char* set : {"train", "val"}) {
    for (int c = 0; c < 12; ++c) {
      std::filesystem::rename(data / set / fmt::format("c{}", c),
                              data / set / fmt::format("{}", c));
    }
  }
  const std::string from = unnamed_copy(data, trained(data.config({"train.epochs=1"})));
  EXPECT_THAT(
      Experiment(data.config({from})).notes,
      Contains(HasSubstr("new head, because the classes differ (weights: 0, 1, 2, 3 and 8 more, "
                         "numbered from 0; data: 0, 1, 10, 11 and 8 more): dense.weight")));
  const Experiment before(data.config({from, "data.rules=1"}));  // as an older run, repeated
  EXPECT_THAT(before.notes, Not(Contains(HasSubstr("new head"))));
}

// A run of before data.rules keeps its head when it is repeated, as it did.
TEST(InitialWeights, OtherForecastsTakeANewHead) {
  const TemporaryFolder folder;
  const auto with = [&](const std::string& target, const std::string& more) {
    Config config = series_config(
        folder, {"train.epochs=1", "data.series.columns=[value, other]", "data.series.difference=0",
                 "data.series.targets=[" + target + "]",
                 "model={layers: [{gru: {units: 4}}], head: [{dense: {units: 1}}]}", more});
    std::string csv = "month,value,other\n";
    for (int i = 0; i < 96; ++i) csv += fmt::format("m{},{},{}\n", i, i % 7, i % 5);
    folder.write("s.csv", csv);
    return config;
  };
  const std::string from = init_from + trained(with("value", "seed=1"));
  EXPECT_THAT(Experiment(with("other", from)).notes,
              Contains(HasSubstr("new head, because the forecasts differ (weights: value, 1 rows; "
                                 "data: other, 1 rows): dense.weight")));
  Config repeated = with("other", from);
  repeated.data.rules = 1;
  EXPECT_THAT(Experiment(repeated).notes, Not(Contains(HasSubstr("new head"))));
}

TEST(InitialWeights, AnotherComputationIsSaid) {
  const StripeFolder data;
  const auto with = [&](const std::string& convolution, const std::string& from = "init.from=") {
    return data.config({"train.epochs=1", from,
                        "model={layers: [{conv2d: {filters: 4, kernel: 3, " + convolution +
                            "}}, global_avg_pool2d], head: [{dense: {units: classes}}]}"});
  };
  const std::string from = init_from + trained(with("padding: same, activation: relu"));
  const auto notes = [&](const std::string& convolution) {
    return Experiment(with(convolution, from)).notes;
  };
  EXPECT_THAT(
      notes("padding: same, activation: tanh"),
      Contains(HasSubstr("were trained in a network that computes otherwise: conv2d padding "
                         "1 relu (conv2d) there, conv2d padding 1 tanh (conv2d) here. "
                         "model=from_weights follows the weights.")));
  EXPECT_THAT(notes("strides: 2, padding: same, activation: relu"),
              Contains(HasSubstr("conv2d strides 2 padding same relu (conv2d) here")));
  EXPECT_THAT(notes("activation: relu"), Contains(HasSubstr("conv2d relu (conv2d) here")));
  // Other words for the same.
  EXPECT_THAT(notes("padding: 1, strides: 1, activation: relu"),
              Not(Contains(HasSubstr("computes otherwise"))));
}

}  // namespace
}  // namespace whisker::test
