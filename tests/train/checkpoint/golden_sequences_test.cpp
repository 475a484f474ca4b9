// Runs on texts and rows of before there were TokenRules::unicode and labels told by evidence: they
// classify and resume as then. tests/golden_sequences/KIND holds a run stopped after 8 and more
// steps, and its data; the numbers below are what the program of then answered.
#include "core/io/file.h"
#include "core/io/json.h"
#include "tests/support/error_of.h"
#include "tests/support/next_inputs.h"
#include "tests/support/tiny_training.h"
#include "train/data/run_data.h"
#include "train/data/run_split.h"
#include "train/inference/sequence_classifier.h"

#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

namespace fs = std::filesystem;

fs::path golden(const std::string& kind) {
  return fs::path(WHISKER_SOURCE_DIR "/tests/golden_sequences") / kind;
}

double val_loss_at_the_end(const fs::path& run) {
  const std::string text = read_file(run / "metrics.jsonl", 1 << 20, ErrorKind::data);
  std::istringstream lines(text);
  double loss = 0;
  for (std::string line; std::getline(lines, line);) {
    const JsonValue entry = JsonValue::parse(line, {.name = "metrics"});
    if (const JsonValue* const found = entry.find("val_loss")) loss = found->as_double();
  }
  return loss;
}

// Trains the run of `kind` to the end of its third epoch; the validation loss then.
double resumed(const std::string& kind, const std::string& data,
               const std::vector<std::string>& more = {}) {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  fs::copy(golden(kind), run, fs::copy_options::recursive);
  std::vector<std::string> overrides = {"data.train=" + (run / data).string(), "train.epochs=3",
                                        "train.time_budget_minutes=0"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  TestRun again(read_run_config((run / "config.yaml").string(), overrides), run);
  again.train();
  return val_loss_at_the_end(run);
}

TEST(GoldenSequences, TextsAreSplitIntoWordsAsThen) {
  const Network network = Network::load(golden("text") / "best.safetensors", cpu_device);
  EXPECT_EQ(network.input<TextInput>().rules, TokenRules::ascii);
  std::vector<double> neg;
  classify_texts(
      network, inputs_of({"the film was “good” and", "the film was bad…", "ÇA—GOOD É"}), 3,
      [&](const Prediction& one) { neg.push_back(static_cast<double>(one.probabilities[0])); });
  ASSERT_EQ(neg.size(), 3u);
  EXPECT_NEAR(neg[0], 0.50593334, 1e-4);
  EXPECT_NEAR(neg[1], 1 - 0.5747868, 1e-4);
  EXPECT_NEAR(neg[2], 1 - 0.5712615, 1e-4);
}

TEST(GoldenSequences, RunsGoOnAsThen) {
  EXPECT_NEAR(resumed("text", "data.tsv"), 0.7202458381652832, 1e-4);
  EXPECT_NEAR(resumed("rows", "rows.csv"), 0.42006945610046387, 1e-4);
  EXPECT_THAT(message_of(ErrorKind::checkpoint,
                         [] { resumed("text", "data.tsv", {"data.text.rules=unicode"}); }),
              testing::HasSubstr("changed since this run stopped"));
}

// What is a header now was an example then, of a class of its own: such runs named data.val.
TEST(GoldenSequences, NumbersAsNamesOfColumnsAreReadAsThen) {
  const TemporaryFolder folder;
  const std::string rows = read_file(golden("rows") / "rows.csv", 1 << 20, ErrorKind::data);
  const std::string data = folder.write("rows.csv", "label,0,1,2,3,4,5,6,7\n" + rows).string();
  Config config = read_run_config((golden("rows") / "config.yaml").string(),
                                  {"data.train=" + data, "data.val=" + data, "data.val_split=0"});
  EXPECT_THAT(open_sequences(config).signature.classes, testing::ElementsAre("1", "2", "label"));
  config.data.rules = newest_data_rules;
  EXPECT_THAT(open_sequences(config).signature.classes, testing::ElementsAre("1", "2"));
}

TEST(GoldenSequences, RunsWithoutNamesOfColumnsHaveTheSameInput) {
  RowsInput rows{.most_steps = 2, .scaling = {Scaling{}}, .names = {"a", "b"}, .class_like = 0.5};
  const Signature named{.input = rows, .classes = {"1", "2"}};
  rows.names.clear();
  EXPECT_TRUE(named.has_input(rows.json()));
  rows.class_like.reset();
  EXPECT_TRUE(named.has_input(rows.json()));
  rows.names = {"b", "a"};
  EXPECT_FALSE(named.has_input(rows.json()));
  SeriesInput series{.columns = {"2"}, .targets = {"2"}, .names = {"a"}, .step_seconds = 60};
  const Signature timed{.input = series};
  series.step_seconds = 0;
  EXPECT_TRUE(timed.has_input(series.json()));
  series.names.clear();
  EXPECT_TRUE(timed.has_input(series.json()));
  series.step_seconds = 3600;
  EXPECT_FALSE(timed.has_input(series.json()));
}

TEST(GoldenSequences, SplitsAreThoseOfThen) {
  for (const auto& [kind, data] : {std::pair{"text", "data.tsv"}, {"rows", "rows.csv"}}) {
    const fs::path weights = golden(kind) / "best.safetensors";
    const Network network = Network::load(weights, cpu_device);
    const std::optional<PastRun> run = run_of(weights);
    ASSERT_TRUE(run);
    EXPECT_NO_THROW(sequences_of_split(
        network, *run, {.split = "val", .where = (golden(kind) / data).string()}, 8));
  }
}

}  // namespace
}  // namespace whisker::test
