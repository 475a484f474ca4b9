// Copies among texts, rows and windows of series, by their contents.
#include "train/data/copies.h"

#include "core/io/atomic_file.h"
#include "data/images/split_list.h"
#include "tests/support/change_times.h"
#include "tests/support/error_of.h"
#include "tests/support/overrides.h"
#include "tests/support/tiny_sequences.h"
#include "tests/support/tiny_training.h"
#include "train/data/labelled_sequences.h"
#include "train/data/sequence_sets.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace whisker::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* more_values = ",1.1,2.2,3.3,4.4,5.5,6.6,7.7";  // than may be alike by chance

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

// Twenty examples of a text or of eight values.
std::string table(int first, int count = 20) {
  std::string rows;
  for (int i = first; i < first + count; ++i) {
    rows += fmt::format("{},{}.5,{}{}\n", i % 2 == 0 ? "a" : "b", i, i * i, more_values);
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

// Without a warning: a surname may be one of two languages.
TEST_F(Copies, ContradictingLabelsAreSaid) {
  const std::string contradicting = table(0) + fmt::format("a,1.5,1{0}\nb,1.5,1{0}\n", more_values);
  for (const std::string kind : {"text", "rows"}) {
    const Config config = this->config(kind, {setting("data.train", contradicting),
                                              setting("data.val", table(20)), "data.val_split=0"});
    EXPECT_THAT(warnings(config), IsEmpty());
    EXPECT_THAT(open_data(config).notes,
                Contains(AllOf(
                    testing::StartsWith(fmt::format("3 of the 22 {} of data.train are copies with "
                                                    "different labels, such as ",
                                                    kind == "text" ? "texts" : "rows")),
                    HasSubstr("train.csv:2 and "),
                    testing::EndsWith("train.csv:21: a network gives copies one answer. Correct "
                                      "those that are wrong."))));
  }
}

// Passengers of one class, sex and age are no copies of each other.
TEST_F(Copies, RowsOfFewValuesAreNotCompared) {
  std::string rows;
  for (int i = 0; i < 40; ++i) {
    rows += fmt::format("{},{},{},0,1,1,0,2,3,1\n", i % 3 == 0 ? "a" : "b", i % 4, i % 2);
  }
  const Config config = this->config("rows", {setting("data.train", rows)});
  for (const std::string& note : open_data(config).notes) {
    EXPECT_THAT(note, testing::Not(HasSubstr("copies")));
    EXPECT_THAT(note, testing::Not(HasSubstr("too, such as")));
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

TEST_F(Copies, QuietWindowsAreNotCompared) {
  const auto hours = [](int first) {  // rain in one hour of 30
    std::string rows = "hour,value\n";
    for (int i = first; i < first + 60; ++i)
      rows += fmt::format("h{},{}\n", i, i % 30 == 0 ? i + 1 : 0);
    return rows;
  };
  EXPECT_THAT(
      warnings(series_config(folder_, {"data.series.difference=0", setting("data.train", hours(0)),
                                       "data.val_split=0", setting("data.val", hours(60))})),
      IsEmpty());
}

TEST_F(Copies, LinesCountOnceAndFromATenthOn) {
  const std::string licence(80, 'l');
  EXPECT_EQ(contents_of(licence + "\n" + licence + "\nshort\n" + licence.substr(1)).size(), 1U);
  const auto note = [](int64_t count) {
    return shared_note({.count = count}, 100, validation_part(lines_name), "training");
  };
  EXPECT_EQ(note(9), "");
  EXPECT_THAT(note(10), HasSubstr("warning: 10 of the 100 validation lines of 80 bytes and more "
                                  "are training lines, too: they do not measure what other lines "
                                  "would. "));
  EXPECT_EQ(trained_note(9, 100, lines_name, "a.txt"), "");
  EXPECT_THAT(trained_note(90, 100, lines_name, "a.txt"),
              HasSubstr("90 of these 100 lines of 80 bytes and more trained the weights"));
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
    ASSERT_EQ(::mkfifo((folder_ / "train.csv").c_str(), 0600), 0);  // nobody writes into it
    EXPECT_THAT(again().contents, IsEmpty());
    EXPECT_EQ(again().note, "");
    std::filesystem::remove(folder_ / "train.csv");
    folder_.write("train.csv");
    std::filesystem::resize_file(folder_ / "train.csv", 65 << 20);
    EXPECT_EQ(again().note, "not compared with the training data, which are 65 MiB");
    std::filesystem::remove_all(config.runs);
  }
  const Config series = series_config(folder_, once);
  EXPECT_EQ(seen(series, series.data.train), std::pair(48L, 72L));
  Config language = language_config(folder_, once);
  std::string lines;
  for (int i = 0; i < 100; ++i)
    lines += fmt::format("the {}th of the lines{}\nshort\n", i, std::string(64, '.'));
  language.data.train = folder_.write("lines.txt", lines).string();
  EXPECT_EQ(seen(language, language.data.train), std::pair(90L, 100L));
}

// Unique texts of two words, in the same vocabulary in either order.
std::string two_word_texts(bool backward) {
  std::string rows;
  for (int i = 0; i < 20; ++i) {
    const int number = backward ? 19 - i : i;
    rows += fmt::format("{},x x x x x x", number % 2 == 0 ? "a" : "b");
    for (int bit = 1; bit < 32; bit *= 2) rows += (number & bit) != 0 ? " x" : " y";
    rows += '\n';
  }
  return rows;
}

TEST_F(Copies, ASplitOfATableInAnotherOrderIsRefused) {
  const Config config = this->config("text", {setting("data.train", two_word_texts(false))});
  TestRun run(config);
  run.train();
  const Network network = Network::load(run.folder.best(), cpu_device);
  const auto read = [&](const char* split) {
    return sequences_of_split(network, *run_of(run.folder.best()), {.split = split}, 8);
  };
  EXPECT_NO_THROW(read("val"));
  folder_.write("train.csv", two_word_texts(true));
  for (const char* split : {"train", "val"}) {
    EXPECT_THAT(message_of(ErrorKind::data, [&] { read(split); }),
                HasSubstr("train.csv changed since the weights were trained: other examples. "));
  }
}

// As the program writes it.
void write_split(const TestRun& run) {
  const auto& images = run.experiment.data.images;
  write_file_atomically(run.folder.split(), split_csv(images.train, images.val));
}

TEST(SplitImages, OfAnotherContentOrLabelAreRefused) {
  const StripeFolder data;
  std::string labels = "path,label\n";
  for (const char* name : {"c0", "c1"}) {
    for (const auto& entry : std::filesystem::directory_iterator(data / "train" / name)) {
      labels += fmt::format("{}/{},{}\n", name, entry.path().filename().string(), name);
    }
  }
  const std::string csv = data.folder().write("labels.csv", labels).string();
  const Config config =
      data.config({"train.epochs=1", "data.val=", "data.val_split=0.2", "data.csv=" + csv});
  TestRun run(config);
  run.train();
  write_split(run);
  const Network network = Network::load(run.folder.best(), cpu_device);
  const PastRun past = *run_of(run.folder.best());
  const auto read = [&] { return images_of_split(network, past, {.split = "val"}); };
  const ImageFolder images = read();
  EXPECT_EQ(images.size(), 8);
  EXPECT_THAT(images.notes, IsEmpty());
  const auto refused = [&] { return message_of(ErrorKind::data, [&] { read(); }); };
  const std::string first = images.files[0].path;
  data.folder().write("labels.csv", labels.replace(labels.find(first) + first.size(), 3, ",c1"));
  const std::string one =
      "1 of the 8 images of " + past.split().string() + " has another content or label than in ";
  EXPECT_THAT(refused(), AllOf(HasSubstr(one), HasSubstr(first)));
  data.folder().write("labels.csv", labels.replace(labels.find(first) + first.size(), 3, ",c0"));
  EXPECT_EQ(read().size(), 8);
  if (!has_fine_change_times()) GTEST_SKIP();
  std::fstream(images.file(0), std::ios::binary | std::ios::in | std::ios::out).put('x');
  EXPECT_THAT(refused(), HasSubstr(one));  // of the same size
  std::filesystem::remove(images.file(0));
  EXPECT_EQ(read().size(), 8);  // as it is missing, evaluation tells
}

// A validation set of the training images: said again where it measures.
TEST(SplitImages, ThatTrainedAreSaid) {
  const StripeFolder data;
  std::filesystem::copy_file(data / "train/c0/000.jpg", data / "val/c0/again.jpg");
  TestRun run(data.config({"train.epochs=1"}));
  run.train();
  write_split(run);
  const Network network = Network::load(run.folder.best(), cpu_device);
  const PastRun past = *run_of(run.folder.best());
  EXPECT_THAT(images_of_split(network, past, {.split = "val"}).notes,
              ElementsAre(HasSubstr("warning: 1 of the 11 validation images is one of the training "
                                    "images, too, such as c0/again.jpg: ")));
  EXPECT_THAT(images_of_split(network, past, {.split = "train"}).notes, IsEmpty());
}

}  // namespace
}  // namespace whisker::test
