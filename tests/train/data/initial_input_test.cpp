// What a run on text, rows or a series keeps of the weights that it starts from.
#include "train/data/initial_input.h"

#include "tests/support/error_of.h"
#include "tests/support/overrides.h"
#include "tests/support/tiny_sequences.h"
#include "tests/support/tiny_training.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using Lines = std::vector<std::string>;

std::string weights_of(const Config& config) {
  TestRun run(config);
  run.train();
  return "init.from=" + run.folder.best().string();
}

std::string refusal_of(const Config& config, ErrorKind kind) {
  return message_of(kind, [&] { const Experiment experiment(config); });
}

template <class Input>
const Input& input_in(const Experiment& experiment) {
  return experiment.network->input<Input>();
}

// The words of write_two_languages() with x for b and y for a: other letters beside the known c.
void write_other_letters(const TemporaryFolder& folder) {
  std::string with, without;
  for (int i = 0; i < 20; ++i) {
    with += i % 2 == 0 ? "xca\n" : "ccax\n";
    without += i % 2 == 0 ? "xcc\n" : "cxc\n";
  }
  folder.write("others/with.txt", with);
  folder.write("others/without.txt", without);
}

TEST(InitialInput, AVocabularyIsKeptAndWhatItLacksIsSaid) {
  const TemporaryFolder folder;
  write_two_languages(folder);
  write_other_letters(folder);
  const std::string from = weights_of(text_config(folder, {"train.epochs=1"}));
  const std::string others = "data.train=" + (folder / "others").string();
  const Experiment kept(text_config(folder, {from, others}));
  EXPECT_THAT(input_in<TextInput>(kept).vocabulary.tokens(),
              testing::UnorderedElementsAre("a", "b", "c"));
  EXPECT_THAT(kept.notes, Contains(testing::ContainsRegex(
                              "^data.train: the vocabulary of .*best.safetensors \\(5 entries\\) "
                              "is kept: it lacks [0-9.]+ % of the [0-9]+ training tokens, such as "
                              "'x'; init.skip of its first layer takes the data's own$")));
  const Experiment fresh(text_config(folder, {from, others, "init.skip=['embedding.*']"}));
  EXPECT_THAT(input_in<TextInput>(fresh).vocabulary.tokens(),
              testing::UnorderedElementsAre("a", "c", "x"));
  EXPECT_THAT(fresh.notes, Not(Contains(HasSubstr("vocabulary of"))));
  EXPECT_THAT(refusal_of(text_config(folder, {from, "data.text.lowercase=true"}), ErrorKind::usage),
              HasSubstr("data.text.lowercase: expected false, as the weights of"));
  folder.write("none/with.txt", "mmn\nnm\n");
  folder.write("none/without.txt", "nn\nmm\n");
  EXPECT_THAT(refusal_of(text_config(folder, {from, "data.train=" + (folder / "none").string()}),
                         ErrorKind::data),
              HasSubstr("data.train: expected tokens of the vocabulary of"));
}

TEST(InitialInput, AVocabularyWithoutEntriesShowsNone) {
  EXPECT_EQ(
      message_of(ErrorKind::data,
                 [] {
                   vocabulary_note("w", TextInput(), {{"x", 2}});
                 }),
      "data.train: expected tokens of the vocabulary of w, which is kept, got none: it has no "
      "entries of its own, these tokens are such as 'x'. init.skip of its first layer takes "
      "the data's own.");
}

// A resumed run has the vocabulary that it started with, from its own folder.
TEST(InitialInput, AResumeNeedsNoInitialWeights) {
  const TemporaryFolder folder;
  write_two_languages(folder);
  write_other_letters(folder);
  const std::string from = weights_of(text_config(folder, {"train.epochs=1"}));
  const Config config =
      text_config(folder, {from, "data.train=" + (folder / "others").string(), "train.epochs=2"});
  std::string expected;
  {
    TestRun whole(config);
    whole.train();
    expected = hash_of(whole.experiment);
  }
  const std::filesystem::path stopped = stopped_at(config, 3);
  std::filesystem::remove(from.substr(std::string("init.from=").size()));
  TestRun resumed(read_run_config((stopped / "config.yaml").string()), stopped);
  resumed.train();
  EXPECT_EQ(hash_of(resumed.experiment), expected);
  EXPECT_THAT(resumed.experiment.notes, Not(Contains(HasSubstr("vocabulary of"))));
}

TEST(InitialInput, ALanguageModelKeepsItsCharactersAndTheirLevel) {
  const TemporaryFolder folder;
  const std::string from = weights_of(language_config(folder, {"train.epochs=1"}));
  Config config = language_config(folder, {from});
  std::string text;
  for (int i = 0; i < 100; ++i) text += "The Cat Sat. ";
  folder.write("text.txt", text);
  const Experiment kept(config);
  EXPECT_THAT(kept.notes, Contains(HasSubstr("of the 1170 training tokens, such as")));
  EXPECT_THAT(kept.notes, Not(Contains(HasSubstr("new head"))));
  EXPECT_THAT(
      refusal_of(language_config(folder, {from, "data.text.level=words"}), ErrorKind::usage),
      HasSubstr("data.text.level: expected characters, as the weights of"));
}

Config rows_config(const TemporaryFolder& folder, const std::string& file, const Lines& more = {}) {
  const std::string yaml = R"(
name: rows
device: cpu
data: {kind: rows, val_split: 0.2}
model: {layers: [{gru: {units: 4}}], head: [{dense: {units: classes}}]}
train: {epochs: 1, batch_size: 8}
)";
  return read_config_text(
      yaml, "rows.yaml",
      joined({"data.train=" + (folder / file).string(), "runs=" + (folder / "runs").string()},
             more));
}

TEST(InitialInput, RowsKeepTheirColumnsAndScaling) {
  const TemporaryFolder folder;
  const auto write = [&](const char* file, const char* header, double factor) {
    std::string csv = header;
    for (int i = 0; i < 40; ++i) {
      csv += fmt::format("{},{},{}\n", i % 2 == 0 ? "up" : "down", factor * i, factor * (i % 7));
    }
    folder.write(file, csv);
  };
  write("first.csv", "label,a,b\n", 1);
  write("larger.csv", "label,a,b\n", 100);
  write("swapped.csv", "label,b,a\n", 1);
  const std::string from = weights_of(rows_config(folder, "first.csv"));
  const Experiment first(rows_config(folder, "first.csv"));
  const Experiment kept(rows_config(folder, "larger.csv", {from}));
  EXPECT_EQ(input_in<RowsInput>(kept).scaling[0].mean, input_in<RowsInput>(first).scaling[0].mean);
  EXPECT_THAT(kept.notes,
              Contains(HasSubstr("best.safetensors is kept: its first value has mean")));
  EXPECT_THAT(refusal_of(rows_config(folder, "swapped.csv", {from}), ErrorKind::data),
              HasSubstr("expected column 2 to be 'a'"));
  EXPECT_THAT(refusal_of(rows_config(folder, "first.csv", {from, "data.rows.features=2"}),
                         ErrorKind::usage),
              HasSubstr("data.rows.features: expected 1, as the weights of"));
  const Experiment fresh(rows_config(folder, "larger.csv", {from, "init.skip=['gru.*']"}));
  EXPECT_GT(input_in<RowsInput>(fresh).scaling[0].mean,
            10 * input_in<RowsInput>(first).scaling[0].mean);
}

TEST(InitialInput, ASeriesKeepsItsColumnsAndScaling) {
  const TemporaryFolder folder;
  const Lines once = {"train.epochs=1"};
  const std::string from = weights_of(series_config(folder, once));
  const SeriesInput first = input_in<SeriesInput>(Experiment(series_config(folder, once)));
  Config config = series_config(folder, {from});
  std::string csv = "month,value\n";
  for (int i = 0; i < 96; ++i) csv += fmt::format("m{},{}\n", i, 1000 + 50 * i * (i % 5));
  folder.write("s.csv", csv);
  const Experiment kept(config);
  EXPECT_EQ(input_in<SeriesInput>(kept).scaling[0].mean, first.scaling[0].mean);
  EXPECT_EQ(input_in<SeriesInput>(kept).target_scaling[0].mean, first.target_scaling[0].mean);
  EXPECT_THAT(kept.notes,
              Contains(HasSubstr("best.safetensors is kept: its first value has mean")));
  EXPECT_THAT(
      refusal_of(series_config(folder, {from, "data.series.difference=0"}), ErrorKind::usage),
      HasSubstr("data.series.difference: expected 12, as the weights of"));
  EXPECT_THAT(
      refusal_of(series_config(folder, {from, "data.series.columns=[month]"}), ErrorKind::usage),
      HasSubstr("data.series.columns: expected"));
}

}  // namespace
}  // namespace whisker::test
