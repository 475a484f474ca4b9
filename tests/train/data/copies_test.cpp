// Copies among texts, rows and windows of series, by their contents.
#include "train/data/copies.h"

#include "tests/support/overrides.h"
#include "tests/support/tiny_sequences.h"
#include "tests/support/tiny_training.h"
#include "train/data/labelled_sequences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> warnings(const Config& config) {
  std::vector<std::string> found = open_data(config).notes;
  std::erase_if(found, [](const std::string& note) { return !note.starts_with("warning: "); });
  return found;
}

class Copies : public testing::Test {
 protected:
  std::string setting(const std::string& key, const std::string& content) const {
    const std::string name = key.substr(key.find('.') + 1) + ".csv";
    return key + "=" + folder_.write(name, content).string();
  }
  Config config(const std::string& kind, const Overrides& overrides) const {
    if (kind == "text") return text_config(folder_, overrides);
    return text_config(folder_, joined({"data.kind=rows",
                                        "model={layers: [{simple_rnn: {units: 2}}], head: [{dense: "
                                        "{units: classes}}]}"},
                                       overrides));
  }
  const TemporaryFolder folder_;
};

// Twenty examples of a text or of two values.
std::string table(int first, int count = 20) {
  std::string rows;
  for (int i = first; i < first + count; ++i) {
    rows += fmt::format("{},{}.5,{}\n", i % 2 == 0 ? "a" : "b", i, i * i);
  }
  return rows;
}

TEST_F(Copies, ValidationExamplesThatTrain) {
  for (const std::string kind : {"text", "rows"}) {
    const std::string train = setting("data.train", table(0));
    const std::string examples = kind == "text" ? "texts" : "rows";
    EXPECT_THAT(warnings(config(kind, {train})), IsEmpty());
    EXPECT_THAT(warnings(config(kind, {train, "data.val_split=0",
                                       setting("data.val", table(20) + table(3, 2))})),
                ElementsAre(AllOf(
                    HasSubstr(fmt::format("warning: 2 of the 22 validation {0} are training {0}, "
                                          "too, such as ",
                                          examples)),
                    HasSubstr("val.csv:21: they do not measure what other "),
                    HasSubstr("Remove them from data.val, or leave data.val out"))));
    const Config twice = config(kind, {setting("data.train", table(0) + table(0))});
    EXPECT_THAT(warnings(twice), ElementsAre(HasSubstr("Keep one of each in data.train, or name")));
    Config few = twice;
    few.train.overfit_batches = 1;
    EXPECT_THAT(warnings(few), IsEmpty());
  }
}

TEST_F(Copies, ContradictingLabelsAreSaid) {
  for (const std::string kind : {"text", "rows"}) {
    const auto notes =
        warnings(config(kind, {setting("data.train", table(0) + "a,1.5,1\n" + "b,1.5,1\n"),
                               setting("data.val", table(20)), "data.val_split=0"}));
    EXPECT_THAT(notes, ElementsAre(AllOf(
                           HasSubstr(fmt::format("warning: 3 of the 22 {} of data.train are copies "
                                                 "with different labels, such as ",
                                                 kind == "text" ? "texts" : "rows")),
                           HasSubstr("train.csv:2 and "), HasSubstr("train.csv:21: at most one"),
                           testing::EndsWith("Remove or correct them."))));
  }
}

std::string months(int first, int count) {
  std::string rows = "month,value\n";
  for (int i = first; i < first + count; ++i)
    rows += fmt::format("m{},{}\n", i, 100 + i * i % 37 + i);
  return rows;
}

TEST_F(Copies, WindowsOfASeriesThatTrain) {
  const auto of = [&](const Overrides& overrides) {
    return warnings(series_config(folder_, joined({"data.series.difference=0"}, overrides)));
  };
  const std::string train = setting("data.train", months(0, 60));
  EXPECT_THAT(of({train}), IsEmpty());  // windows of their own
  EXPECT_THAT(of({train, "data.val_split=0", setting("data.val", months(60, 30))}), IsEmpty());
  EXPECT_THAT(of({train, "data.val_split=0", setting("data.val", months(40, 40))}),
              ElementsAre(HasSubstr("warning: 8 of the 28 validation windows are training windows, "
                                    "too: they do not measure")));
}

TEST_F(Copies, DataToEvaluateThatTrained) {
  const Overrides once = {"train.epochs=1"};
  const auto seen = [](const Config& config, const std::filesystem::path& path) {
    TestRun run(config);
    run.train();
    const std::filesystem::path best = run.folder.best();
    const LabelledSequences data = open_labelled(Network::load(best, cpu_device), path, {}, 8);
    const auto [trained, changed] = trained_contents(*run_of(best), path);
    EXPECT_EQ(changed, "");
    return std::pair(find_shared(data.contents, trained).count, std::ssize(data.contents));
  };
  for (const std::string kind : {"text", "rows"}) {
    const Config config = this->config(kind, joined(once, {setting("data.train", table(0))}));
    EXPECT_EQ(seen(config, config.data.train), std::pair(16L, 20L));
    EXPECT_EQ(seen(config, folder_.write("new.csv", table(20))), std::pair(0L, 20L));
    const std::optional<PastRun> run = run_of(config.runs + "/words/best.safetensors");
    folder_.write("train.csv", table(0) + table(30, 4));
    const auto again = [&](const std::string& given = "") { return trained_contents(*run, given); };
    EXPECT_THAT(again().note, HasSubstr("train.csv changed since it trained the weights: which"));
    EXPECT_THAT(again().contents, IsEmpty());
    std::filesystem::remove(folder_ / "train.csv");
    EXPECT_THAT(again((folder_ / "new.csv").string()).contents, IsEmpty());
    EXPECT_EQ(again().note, "");
    EXPECT_EQ(again(folder_.write("moved.csv", table(0)).string()).contents.size(), 16U);
    std::filesystem::remove_all(config.runs);
  }
  const Config series = series_config(folder_, once);
  EXPECT_EQ(seen(series, series.data.train), std::pair(48L, 72L));
  Config language = language_config(folder_, once);
  std::string lines;
  for (int i = 0; i < 100; ++i)
    lines += fmt::format("the {}th of the long lines of a text\nshort\n", i);
  language.data.train = folder_.write("lines.txt", lines).string();
  EXPECT_EQ(seen(language, language.data.train), std::pair(90L, 100L));
}

}  // namespace
}  // namespace whisker::test
