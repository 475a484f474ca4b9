// Text, rows and series from files to batches.
#include "core/error.h"
#include "data/sequences/labelled_text.h"
#include "data/sequences/rows_input.h"
#include "data/sequences/sequence_source.h"
#include "data/sequences/series.h"
#include "data/sequences/text_input.h"
#include "data/sequences/text_stream.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string written(const TemporaryFolder& folder, const std::string& name,
                    const std::string& text) {
  return folder.write(name, text).string();
}

// --- text ----------------------------------------------------------------------------------------

TEST(Tokens, CharactersAreCodePoints) {
  EXPECT_THAT(split_tokens("Bé l", TokenLevel::characters), ElementsAre("B", "é", " ", "l"));
}

TEST(Tokens, WordsKeepApostrophesAndPartPunctuation) {
  EXPECT_THAT(split_tokens("Don't  stop: 'café'!\n", TokenLevel::words),
              ElementsAre("Don't", "stop", ":", "'", "café", "'", "!"));
}

TEST(Tokens, LowercaseKnowsEuropeanAlphabets) {
  EXPECT_EQ(prepare_text("ÀÉ×Ž Ÿ ŁÓDŹ ΆΩ ЖЁ İ漢", true, TokenRules::ascii),
            "àé×ž ÿ łódź άω жё İ漢");
}

TEST(Vocabulary, FrequentFirstRareAndUnknownLeftOut) {
  const TokenCounts counts = {{"a", 2}, {"b", 5}, {"c", 2}, {"d", 1}};
  const Vocabulary all(counts, {});
  EXPECT_THAT(all.tokens(), ElementsAre("b", "a", "c", "d"));
  EXPECT_EQ(all.number_of("b"), 2);
  EXPECT_EQ(all.number_of("z"), Vocabulary::unknown);
  EXPECT_EQ(Vocabulary(counts, {.min_count = 2}).size(), 5);
  EXPECT_THAT(Vocabulary(counts, {.max_size = 4}).tokens(), ElementsAre("b", "a"));
}

TEST(TextInput, TravelsAsJson) {
  TextInput input{
      .level = TokenLevel::words, .lowercase = true, .max_length = 3, .keep = KeptEnd::last};
  TokenCounts counts;
  input.count("The cat, the DOG \"É\"", counts);
  input.vocabulary = Vocabulary(counts, {});
  const TextInput again = TextInput::from_json(input.json(), "f");
  const std::string text = "one two the cat É";
  EXPECT_EQ(again.encode(text), input.encode(text));
  EXPECT_EQ(again.encode(text).size(), 3);
  EXPECT_EQ(again.decode(again.encode(text)), "the cat é");
  EXPECT_THAT(message_of(ErrorKind::checkpoint, [] { TextInput::from_json("{}", "f"); }),
              HasSubstr("level"));
}

TEST(LabelledText, TableWithNamedColumns) {
  const TemporaryFolder folder;
  const std::string path =
      written(folder, "a.tsv", "text\tlabel\nhe said \"no\"\tneg\nfine, good\tpos\n");
  const LabelledText text =
      read_labelled_text(path, {.label_column = "label", .text_column = "text"});
  EXPECT_THAT(text.classes, ElementsAre("neg", "pos"));
  EXPECT_EQ(text.examples[0].text, "he said \"no\"");
  EXPECT_EQ(text.examples[1].place, path + ":3");
  EXPECT_THAT(
      message_of(
          ErrorKind::data,
          [&] { read_labelled_text(path, {.label_column = "lable", .text_column = "text"}); }),
      HasSubstr("Did you mean 'label'?"));
}

TEST(LabelledText, AFilePerClassAndBadLines) {
  const TemporaryFolder folder;
  written(folder, "French.txt", "Bélanger\r\n\nRoy\n");
  written(folder, "Irish.txt", "\xff\xc0\nÓ Briain\n");
  const LabelledText text = read_labelled_text(folder.path(), {.max_bad = 0.5});
  EXPECT_THAT(text.classes, ElementsAre("French", "Irish"));
  EXPECT_THAT(text.labels(), ElementsAre(0, 0, 1));
  ASSERT_EQ(text.bad.size(), 1);
  EXPECT_THAT(text.bad[0].place, HasSubstr("Irish.txt:1"));
  EXPECT_THAT(
      message_of(ErrorKind::data, [&] { read_labelled_text(folder.path(), {.max_bad = 0}); }),
      testing::AllOf(HasSubstr("1 of 4 rows"), HasSubstr("not UTF-8")));
}

// IMDB's archive and Keras' text_dataset_from_directory: a file per text in class folders.
TEST(LabelledText, AFilePerTextInClassFolders) {
  const TemporaryFolder folder;
  folder.write("pos/0_9.txt", "Fine.\nTwo lines.\n");
  folder.write("pos/1_8.txt", "\xef\xbb\xbfGood");
  folder.write("neg/0_2.txt", "Bad.");
  folder.write("neg/deeper/1_1.txt", "Worse.");
  folder.write("neg/.hidden", "Unseen.");
  folder.write("urls_pos.txt", "http://example.org\n");
  const LabelledText text = read_labelled_text(folder.path(), {});
  EXPECT_THAT(text.classes, ElementsAre("neg", "pos"));
  EXPECT_THAT(text.labels(), ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(text.examples[0].text, "Bad.");
  EXPECT_EQ(text.examples[1].text, "Worse.");
  EXPECT_EQ(text.examples[2].text, "Fine.\nTwo lines.\n");
  EXPECT_EQ(text.examples[3].text, "Good");
  EXPECT_EQ(text.examples[2].place, (folder / "pos/0_9.txt").string());
  EXPECT_EQ(text.use(), "4 of 6 files used: 1 hidden, 1 not in a class folder");

  folder.write("neg/empty.txt", "\n\n");
  folder.write("pos/binary.txt", "\xff\xc0");
  const LabelledText bad = read_labelled_text(folder.path(), {.max_bad = 0.5});
  ASSERT_EQ(bad.bad.size(), 2U);
  EXPECT_THAT(bad.bad[0].place, HasSubstr("neg/empty.txt"));
  EXPECT_EQ(bad.bad[0].reason, "the text is empty");
  EXPECT_THAT(bad.bad[1].reason, HasSubstr("not UTF-8"));

  // Measured with the classes of a model, an unknown one is bad and a missing one is none.
  const LabelledText known =
      read_labelled_text(folder.path(), {.classes = {"neg", "neutral"}, .max_bad = 1});
  EXPECT_THAT(known.labels(), ElementsAre(0, 0));
  EXPECT_EQ(known.bad.size(), 4U);
}

// What tutorials and systems leave beside the texts is no class and no text.
TEST(LabelledText, OnlyTxtFilesAreTexts) {
  const TemporaryFolder flat;
  flat.write("French.txt", "Roy\nBlanc\n");
  flat.write("German.TXT", "Weber\n");
  for (const char* name : {"README.md", "desktop.ini", "French.txt.bak", ".DS_Store"})
    flat.write(name);
  flat.write("@eaDir/French.txt", "Roy\n");
  std::filesystem::create_symlink("French.txt", flat / "Also French.txt");
  const LabelledText text = read_labelled_text(flat.path(), {});
  EXPECT_THAT(text.classes, ElementsAre("Also French", "French", "German"));
  EXPECT_EQ(text.use(),
            "3 of 8 files used (1 is a link): 3 not a .txt file, 1 @eaDir (made by the system), 1 "
            "hidden");
  EXPECT_TRUE(holds_texts(flat.path()));

  const TemporaryFolder folders;
  for (const char* name : {"pos/1.txt", "neg/1.txt", "pos/Thumbs.db", "neg/desktop.ini"}) {
    folders.write(name, "a text");
  }
  EXPECT_EQ(read_labelled_text(folders.path(), {}).use(), "2 of 4 files used: 2 not a .txt file");
  // As runs before data.rules read them.
  EXPECT_EQ(read_labelled_text(folders.path(), {.rules = 1}).examples.size(), 4U);

  const TemporaryFolder splits;
  splits.write("train.txt", "a\n");
  splits.write("test.txt", "b\n");
  EXPECT_THAT(message_of(ErrorKind::data, [&] { read_labelled_text(splits.path(), {}); }),
              HasSubstr("'test.txt' in"));
  const std::pair<const char*, const char*> pairs[] = {
      {"traindata", "tst"}, {"fold1", "fold2"}, {"train_neg", "test_neg"}};
  for (const auto& [one, other] : pairs) {
    const TemporaryFolder files;
    files.write(std::string(one) + ".txt", "a\n");
    files.write(std::string(other) + ".txt", "b\n");
    EXPECT_THAT(message_of(ErrorKind::data, [&] { read_labelled_text(files.path(), {}); }),
                HasSubstr("has the name of a"))
        << one;
    EXPECT_EQ(read_labelled_text(files.path(), {.classes = {one, other}}).examples.size(), 2U);
  }
}

TEST(LabelledText, AClassWithoutAUsableTextIsNotLost) {
  const TemporaryFolder folder;
  for (const char* name : {"files/a.txt", "files/b.txt", "folders/a/1.txt", "folders/b/1.txt"}) {
    folder.write(name, "text\n");
  }
  folder.write("files/c.txt", "");
  folder.write("folders/c/1.txt", "");
  for (const char* name : {"files", "folders"}) {
    EXPECT_THAT(
        message_of(ErrorKind::data, [&] { read_labelled_text(folder / name, {.max_bad = 9}); }),
        HasSubstr("no text that can be used of 'c', whose files or folders are there"));
    for (const int rules : {1, 2}) {
      const LabelledText older = read_labelled_text(folder / name, {.max_bad = 9, .rules = rules});
      EXPECT_THAT(older.classes, testing::ElementsAre("a", "b"));
      EXPECT_THAT(older.notes, testing::Contains(HasSubstr("no text that can be used of 'c'")));
    }
  }
}

TEST(LabelledText, FoldersWithoutTextsSayWhatIsExpected) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::filesystem::path& path, std::vector<std::string> classes) {
    return message_of(ErrorKind::data, [&] {
      read_labelled_text(path, {.classes = std::move(classes), .max_bad = 1});
    });
  };
  folder.write("all/train/pos/1.txt");
  folder.write("all/test/pos/1.txt");
  EXPECT_THAT(
      refused(folder / "all", {}),
      testing::AllOf(HasSubstr("Name one of the splits instead"), HasSubstr("or rename them")));
  for (const char* name : {"folds/fold1/pos/1.txt", "folds/fold2/pos/1.txt"}) folder.write(name);
  EXPECT_THAT(refused(folder / "folds", {}), HasSubstr("Or they are classes: rename them"));
  folder.write("some/pos/1.txt");
  folder.write("some/neg/1.txt");
  std::filesystem::create_directories(folder / "some/none");
  EXPECT_THAT(refused(folder / "some", {}), HasSubstr("no texts in the class folders 'none'"));
  EXPECT_EQ(refused(folder / "some", {"neg", "none", "pos"}), "no error");
  EXPECT_THAT(refused(folder / "some/pos", {"neg", "pos"}),
              testing::AllOf(HasSubstr("holds no labelled text ("),
                             HasSubstr("1.txt:1: '1' is not a class of the model"),
                             HasSubstr("class folders with a file per text")));
  for (const char* name : {"news/sci.space/59848", "news/alt.atheism/49960"}) folder.write(name);
  EXPECT_THAT(refused(folder / "news", {}),
              HasSubstr("holds no labelled text (0 of 2 files used: 2 not a .txt file). Expected"));
}

// --- batches -------------------------------------------------------------------------------------

SequenceSet uneven_set(int64_t size) {
  SequenceSet set;
  for (int64_t i = 0; i < size; ++i) {
    set.add_tokens(std::vector<int64_t>(static_cast<size_t>(1 + i * 7 % 13), i + 2));
    set.labels.push_back(i % 3);
  }
  return set;
}

TEST(SequenceSource, EveryExampleOncePaddedToItsBucket) {
  const auto set = std::make_shared<const SequenceSet>(uneven_set(50));
  const std::vector<int64_t> buckets = bucket_lengths(set->lengths, 4);
  EXPECT_EQ(buckets.back(), 13);
  SequenceSource source(set, shuffle_sampler(50, {.seed = 3}),
                        {.batch_size = 8, .buckets = buckets, .seed = 3});
  EXPECT_EQ(source.batches(), 7);
  source.start_epoch(1);
  std::multiset<int64_t> seen;
  int64_t batches = 0, small = 0;
  while (const std::optional<Batch> batch = source.next()) {
    ++batches;
    small += batch->size() < 8;
    const int64_t steps = batch->inputs.extent(0);
    EXPECT_TRUE(std::ranges::count(buckets, steps) == 1) << steps;
    for (int64_t n = 0; n < batch->size(); ++n) {
      const int64_t index = batch->indices[static_cast<size_t>(n)];
      seen.insert(index);
      EXPECT_EQ(batch->labels.data<const int64_t>()[static_cast<size_t>(n)], index % 3);
      const int64_t length = batch->lengths.data<const int64_t>()[static_cast<size_t>(n)];
      EXPECT_EQ(length, set->lengths[static_cast<size_t>(index)]);
      for (int64_t t = 0; t < steps; ++t) {
        EXPECT_EQ(batch->inputs.data<const int64_t>()[static_cast<size_t>(t * batch->size() + n)],
                  t < length ? index + 2 : Vocabulary::padding);
      }
    }
  }
  EXPECT_EQ(batches, 7);
  EXPECT_EQ(small, 1);
  EXPECT_EQ(seen.size(), 50);
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 50);
}

TEST(SequenceSource, AnEpochIsAFunctionOfSeedAndNumber) {
  const auto set = std::make_shared<const SequenceSet>(uneven_set(60));
  const auto order = [&](uint64_t seed, int64_t epoch, int64_t first) {
    SequenceSource source(
        set, shuffle_sampler(60, {.seed = seed}),
        {.batch_size = 8, .buckets = bucket_lengths(set->lengths, 3), .seed = seed});
    source.start_epoch(epoch, first);
    std::vector<std::vector<int64_t>> all;
    while (const std::optional<Batch> batch = source.next()) all.push_back(batch->indices);
    return all;
  };
  const auto whole = order(1, 2, 0);
  EXPECT_EQ(order(1, 2, 3), std::vector(whole.begin() + 3, whole.end()));
  EXPECT_NE(order(1, 3, 0), whole);
  EXPECT_NE(order(2, 2, 0), whole);
}

TEST(TextStream, RowsGoOnWhereTheyEnded) {
  std::vector<int64_t> tokens(41);
  std::iota(tokens.begin(), tokens.end(), 100);
  TextStream stream(tokens, {.rows = 4, .steps = 3});  // 10 predictions a row
  EXPECT_EQ(stream.batches(), 4);
  for (const int64_t first : {0, 2}) {
    stream.start_epoch(0, first);
    std::vector<int64_t> row;
    bool continues = first > 0;
    while (const std::optional<Batch> batch = stream.next()) {
      EXPECT_EQ(batch->continues, continues);
      continues = true;
      const auto inputs = batch->inputs.data<const int64_t>();
      const auto labels = batch->labels.data<const int64_t>();
      for (size_t i = 0; i < inputs.size(); ++i) EXPECT_EQ(labels[i], inputs[i] + 1);
      for (size_t t = 0; t < inputs.size() / 4; ++t) row.push_back(inputs[t * 4 + 1]);
    }
    std::vector<int64_t> expected(static_cast<size_t>(10 - 3 * first));
    std::iota(expected.begin(), expected.end(), 110 + 3 * first);
    EXPECT_EQ(row, expected);
  }
  EXPECT_THAT(
      message_of(ErrorKind::data,
                 [] {
                   TextStream({1, 2}, {.rows = 4});
                 }),
      HasSubstr("a text of 2 tokens is too short for 4 rows. Use a longer text, or a batch size "
                "of at most 1 (train.batch_size, or --batch-size of evaluate)."));
}

// --- series and rows -----------------------------------------------------------------------------

std::string months(int64_t count) {
  std::string text = "\"Month\",\"Value\"\n";
  for (int64_t i = 0; i < count; ++i) text += fmt::format("m{},{}\n", i, 100 + i * i);
  return text;
}

TEST(Series, WindowsHoldWhatTheFileHasAndScaleBack) {
  const TemporaryFolder folder;
  const std::string path = written(folder, "s.csv", months(30));
  for (const bool log : {false, true}) {
    for (const int64_t difference : {0, 1, 4}) {
      SeriesInput input{.columns = {"Value"},
                        .targets = {"Value"},
                        .window = 5,
                        .horizon = 3,
                        .season = 2,
                        .log = log,
                        .difference = difference};
      const Series series = read_series(path, input, 0);
      ASSERT_EQ(series.rows(), 30);
      const WindowRange range{.begin = 0, .end = 20};
      fit_scaling(series, range, input);
      const SeriesInput stored = SeriesInput::from_json(input.json(), "f");
      const SequenceSet set = cut_windows(series, range, stored);
      EXPECT_EQ(set.size(), 20 - 5 - 3 + 1 - difference);
      double sum = 0;
      for (int64_t w = 0; w < set.size(); ++w) {
        const int64_t last = w + 4 + difference;
        for (int64_t j = 0; j < 3; ++j) {
          const auto at = static_cast<size_t>(w * 3 + j);
          const double actual = 100 + std::pow(last + 1 + j, 2);
          EXPECT_EQ(set.bases->actual[at], actual);
          EXPECT_NEAR(set.bases->restore(w, j, set.targets[at]), actual, 1e-3);
          EXPECT_EQ(set.bases->naive[at], 100 + std::pow(last + 1 + j - 2 * (j / 2 + 1), 2));
        }
        sum += set.targets[static_cast<size_t>(w * 3)];
      }
      EXPECT_NEAR(sum, 0, 1e-3);  // mean 0 over what it was fitted to
      const SequenceSet next = last_window(series, stored);
      EXPECT_EQ(next.size(), 1);
      EXPECT_TRUE(next.bases->actual.empty());
    }
  }
}

TEST(Series, NoWindowReachesOverABadRow) {
  const TemporaryFolder folder;
  std::string text = months(20);
  text.replace(text.find("m10,200"), 7, "m10,abc");
  const std::string path = written(folder, "s.csv", text);
  SeriesInput input{.columns = {"2"}, .targets = {"2"}, .window = 3};
  EXPECT_THAT(message_of(ErrorKind::data, [&] { read_series(path, input, 0); }),
              HasSubstr(path + ":12: expected a number in column 2, got 'abc'"));
  const Series series = read_series(path, input, 0.1);
  EXPECT_EQ(series.rows(), 20);
  fit_scaling(series, {.begin = 0, .end = 20}, input);
  EXPECT_EQ(cut_windows(series, {.begin = 0, .end = 20}, input).size(), 17 - 4);
}

TEST(Series, ATargetIsOneOfTheColumns) {
  const SeriesInput input{.columns = {"1", "2"}, .targets = {"3"}};
  EXPECT_EQ(message_of(ErrorKind::usage, [&] { input.target_column(0); }),
            "data.series.targets: expected one of data.series.columns (1, 2), got '3'");
}

TEST(Rows, SpacesLabelsAndLengths) {
  const TemporaryFolder folder;
  const std::string path =
      written(folder, "r.txt", "  1.0000000e+00 -1.5  2\n 2.0e+00   0.5 1.25\n1 x 3\n");
  const LabelledRows rows = read_labelled_rows(path, {.max_bad = 0.5});
  EXPECT_THAT(rows.labels, ElementsAre("1", "2"));
  EXPECT_THAT(rows.values[0], ElementsAre(-1.5, 2));
  ASSERT_EQ(rows.bad.size(), 1);
  EXPECT_EQ(rows.bad[0].place, path + ":3");
  const std::string csv = written(folder, "r.csv", "a,b,c,kind\n1,2,3,up\n4,5,,down\n");
  const LabelledRows named = read_labelled_rows(csv, {.label_column = "kind", .max_bad = 0});
  EXPECT_THAT(named.labels, ElementsAre("up", "down"));
  EXPECT_THAT(named.values[1], testing::SizeIs(2)) << "a row may be shorter";
}

TEST(Rows, SeveralValuesPerStep) {
  const TemporaryFolder folder;
  const std::string path =
      written(folder, "r.csv", "up,1,10,2,20,3,30\ndown,5,50,,,,\nup,1,2,3,,,\n");
  const LabelledRows rows = read_labelled_rows(path, {.features = 2, .max_bad = 0.5});
  ASSERT_EQ(rows.values.size(), 2);
  ASSERT_EQ(rows.bad.size(), 1);
  EXPECT_THAT(rows.bad[0].reason, testing::HasSubstr("2 values per step, got 3"));
  const std::vector<int64_t> both = {0, 1};
  const std::vector<Scaling> scaling = fit_scaling(rows, both);
  ASSERT_EQ(scaling.size(), 2);
  EXPECT_DOUBLE_EQ(scaling[0].mean, 2.75);
  EXPECT_DOUBLE_EQ(scaling[1].mean, 27.5);
  const SequenceSet set = scaled_sequences(rows, both, scaling);
  EXPECT_THAT(set.lengths, ElementsAre(3, 1));
  EXPECT_FLOAT_EQ(set.values[1], static_cast<float>(scaling[1].apply(10)));
  EXPECT_FLOAT_EQ(set.values[6], static_cast<float>(scaling[0].apply(5)));
  const RowsInput input{.features = 2, .most_steps = 3, .scaling = scaling};
  const RowsInput read = RowsInput::from_json(input.json(), "w");
  EXPECT_EQ(read.json(), input.json());
}

// A forged file must not make infinities of data that are sound.
TEST(SequenceMetadata, NumbersThatNoDataGiveAreRefused) {
  const auto refused = [](std::string text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
    return message_of(ErrorKind::checkpoint, [&] {
      if (text.find("window") == std::string::npos) {
        RowsInput::from_json(text, "w");
      } else {
        SeriesInput::from_json(text, "w");
      }
    });
  };
  const RowsInput rows{.features = 1, .most_steps = 3, .scaling = {{.mean = 2, .deviation = 4}}};
  EXPECT_THAT(refused(rows.json(), "\"mean\":2", "\"mean\":1e308"),
              HasSubstr("w: sequence: mean: expected -1e+35 to 1e+35, got 1e+308."));
  EXPECT_THAT(
      refused(rows.json(), "\"mean\":2,\"deviation\":4", "\"mean\":1e9,\"deviation\":1e-30"),
      HasSubstr("mean: expected -100000 to 100000, got 1000000000."));
  for (const char* deviation : {"0", "-4", "1e-308", "1e308"}) {
    EXPECT_THAT(refused(rows.json(), "\"deviation\":4", fmt::format("\"deviation\":{}", deviation)),
                HasSubstr("w: sequence: deviation: expected 1e-30 to 1e+35, got "));
  }
  for (const char* steps : {"0", "9223372036854775807"}) {
    EXPECT_THAT(refused(rows.json(), "\"most_steps\":3", fmt::format("\"most_steps\":{}", steps)),
                HasSubstr("w: sequence: most_steps: expected 1 to 1000000000, got "));
  }
  const SeriesInput series{.columns = {"a"},
                           .targets = {"a"},
                           .window = 5,
                           .horizon = 1,
                           .season = 6,
                           .difference = 7,
                           .scaling = {{}},
                           .target_scaling = {{}}};
  EXPECT_THAT(refused(series.json(), "\"window\":5", "\"window\":-5"), HasSubstr("got -5."));
  EXPECT_THAT(refused(series.json(), "\"season\":6", "\"season\":-6"), HasSubstr("got -6."));
  EXPECT_THAT(refused(series.json(), "\"difference\":7", "\"difference\":1000001"),
              HasSubstr("got 1000001."));
}

// What is read from data stays within what a weights file may hold.
TEST(SequenceMetadata, FittedScalingCanBeReadBack) {
  EXPECT_FALSE(number_of("1.1e30"));
  EXPECT_EQ(comma_note("20,59"), ": numbers have a decimal point: write 20.59");
  EXPECT_EQ(comma_note("1,101"), ": numbers have a decimal point: write 1.101 or 1101");
  EXPECT_EQ(comma_note("1,234,567.5"), ": write 1234567.5");
  EXPECT_EQ(comma_note("a,b"), "");
  const std::vector<std::vector<double>> columns = {
      {1e30, 1e30, 1e30}, {1e30, -1e30}, {1e-300, 2e-300}, {0.1, 0.1, 0.1}, {-1e30, 0, 1e-30}};
  RowsInput input{.features = std::ssize(columns), .most_steps = 1, .scaling = {}};
  for (const auto& column : columns) input.scaling.push_back(Scaling::fitted_to(column));
  EXPECT_EQ(RowsInput::from_json(input.json(), "w").json(), input.json());
}

}  // namespace
}  // namespace whisker::test
