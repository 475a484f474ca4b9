// Tables as they come: headers, encodings, separators, labels or none, padding, the order of time.
#include "core/error.h"
#include "core/work_progress.h"
#include "data/files/text_file.h"
#include "data/sequences/label_reading.h"
#include "data/sequences/labelled_text.h"
#include "data/sequences/rows_input.h"
#include "data/sequences/series.h"
#include "data/sequences/table_header.h"
#include "data/sequences/text_input.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string utf16(const std::string& ascii, bool little = true) {
  std::string text = little ? "\xff\xfe" : "\xfe\xff";
  for (const char c : ascii) {
    text += little ? std::string{c, '\0'} : std::string{'\0', c};
  }
  return text;
}

// --- words ---------------------------------------------------------------------------------------

std::vector<std::string> words_of(const std::string& text, TokenRules rules) {
  const std::string prepared = prepare_text(text, false, rules);
  std::vector<std::string> words;
  for (const auto word : split_tokens(prepared, TokenLevel::words, rules)) words.emplace_back(word);
  return words;
}

TEST(Words, EveryMarkAndSpaceSeparatesAsAsciiDoes) {
  for (const std::string text :
       {"so “good” it", "so—good—it", "so\u00a0good\u2003it", "so good… it", "so good。it",
        "so\u200bgood\u3000it", "so «good» it", "so¿good?it", "so good\u2028it", "so №good№ it",
        "so_good_it"}) {
    EXPECT_THAT(words_of(text, TokenRules::unicode),
                AllOf(testing::Contains("so"), testing::Contains("good"), testing::Contains("it")))
        << text;
  }
}

TEST(Words, KeepMarksJoinersAndApostrophes) {
  EXPECT_THAT(words_of("don’t ‘stop’ 100％", TokenRules::unicode),
              ElementsAre("don't", "‘", "stop", "’", "100", "％"));
  EXPECT_THAT(words_of("हिन्दी می‌خواهم", TokenRules::unicode),
              ElementsAre("हिन्दी", "می‌خواهم"));
  EXPECT_THAT(words_of("good❤️bad", TokenRules::unicode), ElementsAre("good", "❤️", "bad"));
  EXPECT_THAT(words_of("cafe\u0301", TokenRules::unicode), ElementsAre("caf\u00e9"));
}

TEST(Words, OfOlderWeightsAreSplitAsThen) {
  EXPECT_THAT(words_of("so “good” it—is don’t", TokenRules::ascii),
              ElementsAre("so", "“good”", "it—is", "don’t"));
  TextInput input{.level = TokenLevel::words};
  const std::string now = input.json();
  EXPECT_EQ(TextInput::from_json(now, "f").rules, TokenRules::unicode);
  input.rules = TokenRules::ascii;
  EXPECT_THAT(input.json(), testing::Not(HasSubstr("rules")));
  EXPECT_EQ(TextInput::from_json(input.json(), "f").rules, TokenRules::ascii);
}

TEST(Words, CharactersOfBothNormalFormsAreOne) {
  TextInput input{.level = TokenLevel::characters};
  TokenCounts counts;
  input.count("th\u00e9", counts);
  input.vocabulary = Vocabulary(counts, {});
  EXPECT_EQ(input.encode("the\u0301"), input.encode("th\u00e9"));
  EXPECT_EQ(prepare_text("ẤԱ’", true, TokenRules::unicode), "ấա’");
}

// --- encodings, separators, headers --------------------------------------------------------------

LabelledText text_of(const TemporaryFolder& folder, const std::string& content,
                     LabelledTextOptions options = {}, const std::string& name = "t.csv") {
  options.max_bad = 0;
  return read_labelled_text(folder.write(name, content), options);
}

const LabelledTextOptions by_name = {.label_column = "label", .text_column = "text"};

TEST(TextTables, EncodingsAndLineEnds) {
  const TemporaryFolder folder;
  const std::string plain = "label,text\npos,good\nneg,bad\n";
  std::string cr = plain;
  std::ranges::replace(cr, '\n', '\r');
  for (const std::string& content :
       {plain, cr, utf16(plain), utf16(plain, false), utf16(cr), "\xef\xbb\xbf" + plain}) {
    const LabelledText text = text_of(folder, content, by_name);
    EXPECT_THAT(text.classes, ElementsAre("neg", "pos"));
    EXPECT_EQ(text.examples[0].text, "good");
    EXPECT_THAT(text.notes, IsEmpty());
  }
  const auto refused = [&](const std::string& content) {
    return message_of(ErrorKind::data, [&] { text_of(folder, content, by_name); });
  };
  EXPECT_THAT(refused(utf16(plain).substr(2)), HasSubstr("UTF-16 without a byte order mark"));
  EXPECT_THAT(refused("sep=,\r\n" + plain), HasSubstr("('sep='): remove it"));
  const auto old = folder.write("old.csv", "sep=,\n" + plain.substr(plain.find('\n') + 1));
  const LabelledText older = read_labelled_text(old, {.max_bad = 1, .rules = 2});
  EXPECT_EQ(older.examples[0].text, "good");
  EXPECT_THAT(older.notes, ElementsAre(HasSubstr("data.rules 2 reads what newer ones refuse: ")));
  EXPECT_THAT(refused(utf16(plain) + "x"), HasSubstr("odd number of bytes"));
  EXPECT_THAT(refused(utf16("a") + std::string("\x00\xdc", 2)), HasSubstr("which byte 5 is not"));
  EXPECT_THAT(refused(std::string("\xff\xfe\0\0a\0\0\0", 8)), HasSubstr("UTF-32"));
  std::string pair = std::string("\xff\xfe\x3d\xd8\x00\xde", 6);
  EXPECT_EQ(decode_text(pair, LineEnds::kept), "");
  EXPECT_EQ(pair, "😀");
}

TEST(TextTables, FilesThatAreNoTextAreCalledByTheirFormat) {
  using namespace std::string_literals;
  const TemporaryFolder folder;
  for (const auto& [content, name] :
       {std::pair("\x1f\x8b\x08\0\0"s, "the file is a gzip file (.gz): unpack it with gunzip"),
        std::pair("PK\3\4\x14\0\0\0[Content_Types].xml"s,
                  "the file is an Excel workbook (.xlsx): save its sheet as CSV in UTF-8"),
        std::pair("PK\3\4\x14\0\0\0a.csv"s, "the file is a ZIP archive: unpack it with unzip"),
        std::pair("\xd0\xcf\x11\xe0\xa1\xb1"s, "an old Excel workbook (.xls)"),
        std::pair("PAR1\x15\4"s, "a Parquet file"), std::pair("BZh91AY&SY"s, "a bzip2 file"),
        std::pair("\xfd"
                  "7zXZ\0"s,
                  "an xz file"),
        std::pair("\x28\xb5\x2f\xfd"s, "a Zstandard file")}) {
    EXPECT_THAT(message_of(ErrorKind::data, [&] { text_of(folder, content); }), HasSubstr(name));
  }
  EXPECT_EQ(packed_format("PAR1,2\n"), "");
}

TEST(TextTables, LinesThatEndInTwoWaysAreRefused) {
  const TemporaryFolder folder;
  const std::string rows = "pos,good\r\nneg,bad\r\npos,fine\r\nneg,poor\r\n";
  const auto reason = [&](const std::string& content, const std::string& name = "t.csv") {
    return message_of(ErrorKind::data, [&] { text_of(folder, content, {}, name); });
  };
  for (const char* mixed : {"pos,one\rneg,two\r\n", "pos,a CR \r within\r\n"}) {
    EXPECT_THAT(reason(rows + mixed),
                AllOf(HasSubstr("t.csv:5"), HasSubstr("a CR (carriage return) stands")));
  }
  EXPECT_THAT(reason("pos,one\rneg,two\r\n" + rows),
              AllOf(HasSubstr("t.csv:1"), HasSubstr("a CR (carriage return) stands")));
  EXPECT_THAT(reason("pos,\"one\"\rneg,two\r\n" + rows), HasSubstr("carriage return"));
  EXPECT_THAT(reason("pos\tgood\nneg\tb\rad\npos\ta\nneg\tb\n", "t.tsv"),
              AllOf(HasSubstr("t.tsv:2"), HasSubstr("carriage return")));
  EXPECT_EQ(text_of(folder, rows + "pos,\"a \r quoted one\"\r\n").examples.size(), 5u);
  // A text of an older run keeps its CR.
  for (const int rules : {1, 2}) {
    EXPECT_EQ(text_of(folder, rows + "pos,one\rtwo\r\n", {.rules = rules}).examples[4].text,
              "one\rtwo");
  }
}

TEST(TextTables, SemicolonsAndTabsInACsvAreTold) {
  const TemporaryFolder folder;
  const LabelledText text = text_of(folder, "label;text\npos;\"a; b, c\"\nneg;d\n", by_name);
  EXPECT_EQ(text.examples[0].text, "a; b, c");
  EXPECT_THAT(text.notes, ElementsAre(HasSubstr("fields end at semicolons")));
  EXPECT_THAT(text_of(folder, "label\ttext\npos\ta\nneg\tb\n", by_name).notes,
              ElementsAre(HasSubstr("fields end at tabs")));
  EXPECT_THAT(text_of(folder, "label,text\npos,a;b\nneg,b\n", by_name).notes, IsEmpty());
}

TEST(TextTables, CommasWithoutQuotesAreTold) {
  const TemporaryFolder folder;
  const std::string rows = "good,pos\nbad,neg\nfine,pos\npoor,neg\n";
  const LabelledTextOptions behind{.label_column = "2", .text_column = "1", .max_bad = 0};
  EXPECT_THAT(
      message_of(ErrorKind::data, [&] { text_of(folder, rows + "hello, world,pos\n", behind); }),
      AllOf(HasSubstr("1 of 5 rows could not be used"),
            HasSubstr("t.csv:5: expected 2 fields as in the first row, got 3: a field with "
                      "a comma in it must be in quotes")));
  EXPECT_EQ(text_of(folder, rows + "\"hello, world\",pos\n", behind).examples.size(), 5U);
  const auto reason = [&](const std::string& content, const std::string& name) {
    return message_of(ErrorKind::data, [&] { text_of(folder, content, {}, name); });
  };
  EXPECT_THAT(reason("pos\ta\nneg\tb\npos\tb\tc\npos\tc\n", "t.tsv"),
              HasSubstr("got 3: fields end at tabs"));
  EXPECT_THAT(reason("pos a\nneg b\npos b c\npos c\n", "t.txt"),
              HasSubstr("got 3: fields end at spaces, as the first line has no tab and no comma"));
  // Where every row has room for it, a part of the text is not read.
  EXPECT_THAT(text_of(folder, "pos,good,so\nneg,bad,\n").notes,
              ElementsAre(AllOf(HasSubstr("columns without a name that are not read hold something "
                                          "in 1 of 2 rows, such as 'so' in column 3 of line 1"),
                                HasSubstr("a field with a comma in it must be in quotes"))));
  EXPECT_THAT(text_of(folder, "label,text,,\npos,a,b,\nneg,c,,d\n", by_name).notes,
              ElementsAre(HasSubstr("in 2 of 2 rows, such as 'b' in column 3 of line 2")));
  EXPECT_THAT(text_of(folder, "label,text,day\npos,a,b\nneg,c,d\n", by_name).notes, IsEmpty());
  EXPECT_THAT(
      text_of(folder, "7,pos,a\n8,neg,c\n", {.label_column = "2", .text_column = "3"}).notes,
      ElementsAre(HasSubstr("t.csv: of 3 columns, 2 and 3 are read; not read: column 1 (")));
}

TEST(TextTables, OneColumnIsNotBothLabelAndText) {
  const TemporaryFolder folder;
  for (const LabelledTextOptions& both :
       {LabelledTextOptions{.label_column = "1", .text_column = "1"},
        LabelledTextOptions{.label_column = "1", .text_column = "kind"}}) {
    EXPECT_THAT(message_of(ErrorKind::usage,
                           [&] { text_of(folder, "kind,a\nkind,a\nneg,b\nneg,b\n", both); }),
                AllOf(HasSubstr("column 1 is read as the label and as the text"),
                      HasSubstr("data.label_column or data.text.text_column")));
  }
}

TEST(TextTables, AHeaderIsOneWithNumberedColumnsToo) {
  const TemporaryFolder folder;
  const std::string rows = "pos,good\nneg,bad\npos,fine\nneg,poor\n";
  const LabelledText text = text_of(folder, "label,text\n" + rows);
  EXPECT_THAT(text.classes, ElementsAre("neg", "pos"));
  EXPECT_THAT(text.notes, ElementsAre(AllOf(HasSubstr("'label', 'text'"), HasSubstr("names"),
                                            HasSubstr("data.header=false"))));
  EXPECT_THAT(text_of(folder, rows).notes, IsEmpty());
  EXPECT_EQ(text_of(folder, rows).examples.size(), 4u);
  // Numbers below say so as well.
  EXPECT_THAT(text_of(folder, "stance,said\n1,a\n0,b\n").classes, ElementsAre("0", "1"));
  // A class of its own, or a name: nobody knows.
  EXPECT_THAT(message_of(ErrorKind::data, [&] { text_of(folder, "stance,said\n" + rows); }),
              AllOf(HasSubstr(":1:"), HasSubstr("data.header=true or data.header=false")));
  EXPECT_EQ(text_of(folder, "stance,said\n" + rows, {.header = Header::present}).classes.size(),
            2u);
  EXPECT_EQ(text_of(folder, "stance,said\n" + rows, {.header = Header::absent}).classes.size(), 3u);
  // Where classes with one example are usual, one more is.
  EXPECT_EQ(text_of(folder, "stance,said\n" + rows + "mixed,so\n").classes.size(), 4u);
  EXPECT_THAT(message_of(ErrorKind::usage,
                         [&] {
                           LabelledTextOptions options = by_name;
                           options.header = Header::absent;
                           text_of(folder, "label,text\n" + rows, options);
                         }),
              HasSubstr("Give their numbers"));
}

TEST(TextTables, AModelsClassesTellAHeader) {
  const TemporaryFolder folder;
  const std::vector<std::string> classes = {"neg", "pos"};
  const LabelledText text = text_of(folder, "label,text\npos,a\n", {.classes = classes});
  EXPECT_EQ(text.examples.size(), 1u);
  EXPECT_EQ(text.notes.size(), 1u);
  // The weights of a run that took the header for an example.
  const LabelledText older =
      text_of(folder, "label,text\npos,a\n", {.classes = {"label", "neg", "pos"}});
  EXPECT_EQ(older.examples.size(), 2u);
}

TEST(TextTables, LabelsOfOtherNormalFormsAreTold) {
  const TemporaryFolder folder;
  const LabelledText text =
      text_of(folder, "th\u00e9,a\ncaf\u00e9,b\n", {.classes = {"cafe\u0301", "th\u00e9"}});
  EXPECT_THAT(text.labels(), ElementsAre(1, 0));
  EXPECT_THAT(text.notes, ElementsAre(HasSubstr("1 label matches after Unicode's normal form C")));
  EXPECT_THAT(text_of(folder, "Pos,a\npos,b\nPos,a\npos,b\n").notes,
              ElementsAre("classes 'Pos' and 'pos' differ in case alone: one class or two?"));
}

// --- rows ----------------------------------------------------------------------------------------

TEST(RowTables, ColumnsThatMayBeNoValuesAreSaid) {
  const TemporaryFolder folder;
  const auto notes = [&](const std::string& header, bool counts, LabelledRowsOptions options = {}) {
    std::string content = header;
    for (int i = 0; i < 14; ++i) {
      content += fmt::format("{},{},{}\n", i % 2, counts ? 14 - i : 7 * (i / 2), 0.5 * i);
    }
    if (!header.empty()) options.label_column = "label";
    auto found = read_labelled_rows(folder.write("r.csv", content), options).notes;
    std::erase_if(found, [](const std::string& note) {
      return note.find("as a value") == std::string::npos;
    });
    return found;
  };
  for (const char* name : {"id", "Index", "Unnamed: 0"}) {
    EXPECT_THAT(notes(fmt::format("label,{},v\n", name), false),
                ElementsAre(HasSubstr(fmt::format(
                    "column 2 ('{}') is read as a value, although its name is that of an index: "
                    "remove the column if it says nothing about other rows",
                    name))));
  }
  EXPECT_THAT(
      notes("label,a,v\n", true),
      ElementsAre(HasSubstr("column 2 ('a') is read as a value, although it numbers the rows")));
  EXPECT_THAT(notes("", true), ElementsAre(HasSubstr("column 2 is read as a value, although it")));
  EXPECT_THAT(
      notes("label,v,Target\n", false),
      ElementsAre(HasSubstr("column 3 ('Target') is read as a value, although its name is that "
                            "of a label: remove the column, or name it in data.label_column in "
                            "place of column 1")));
  EXPECT_THAT(notes("label,x,y\n", false), IsEmpty());
  EXPECT_THAT(notes("label,a,v\n", false), IsEmpty());
  EXPECT_THAT(notes("label,id,v\n", true, {.classes = {"0", "1"}}),
              IsEmpty());  // a trained model's
}

TEST(RowTables, NamesMayBeNumbers) {
  const TemporaryFolder folder;
  const auto rows = [&](const std::string& content, Header header = Header::automatic) {
    return read_labelled_rows(folder.write("r.csv", content), {.max_bad = 0, .header = header});
  };
  const std::string below = "1,0.5,0.25\n2,1.5,1\n";
  for (const char* header : {"label,0,1\n", "kind,0,1\n", "label,a,b\n"}) {
    EXPECT_THAT(rows(header + below).labels, ElementsAre("1", "2")) << header;
    EXPECT_THAT(rows(header + below).notes, ElementsAre(HasSubstr("data.header=false"))) << header;
  }
  EXPECT_THAT(rows("label,0,1\n" + below).notes, ElementsAre(HasSubstr("data.header=false")));
  EXPECT_THAT(rows("label,0,1\n" + below, Header::absent).labels, ElementsAre("label", "1", "2"));
  EXPECT_THAT(rows(below, Header::present).labels, ElementsAre("2"));
  EXPECT_THAT(rows("up,0,1\ndown,1,2\n").labels, ElementsAre("up", "down"));
}

TEST(RowTables, TrailingNaNAndEmptyFieldsArePadding) {
  const TemporaryFolder folder;
  const LabelledRows rows = read_labelled_rows(
      folder.write("r.tsv", "1\t0.5\tNaN\tnan\n2\t1\t2\t3\n1\t4\tNaN\t \n"), {.max_bad = 0});
  EXPECT_THAT(rows.values, ElementsAre(ElementsAre(0.5), ElementsAre(1, 2, 3), ElementsAre(4)));
  EXPECT_THAT(rows.notes,
              ElementsAre(HasSubstr("empty fields or NaN at the end of 2 of 3 rows are padding")));
  const auto empty = folder.write("e.csv", "1,0.5,,\n2,1,2,3\n1,4,5,\n2,1,2,3\n");
  EXPECT_THAT(read_labelled_rows(empty, {.max_bad = 0}).notes,
              ElementsAre(HasSubstr("at the end of 2 of 4 rows are padding")));
  const auto behind = folder.write("b.csv", "0.5,0.25,1\n1,2,2\n");
  EXPECT_THAT(read_labelled_rows(behind, {.label_column = "3", .max_bad = 0}).notes, IsEmpty());
  const auto inside = folder.write("i.tsv", "1\tNaN\t2\n2\t1\t2\n");
  EXPECT_THAT(message_of(ErrorKind::data, [&] { read_labelled_rows(inside, {.max_bad = 0}); }),
              HasSubstr("expected a number in column 2, got 'NaN'"));
}

TEST(RowTables, BadRowsAreCountedAmongAll) {
  const TemporaryFolder folder;
  std::string content;
  for (int i = 0; i < 60; ++i) content += i % 15 == 7 ? "1\t2\t3\t4\n" : "1\t2\t3\n";
  const auto path = folder.write("r.tsv", content);
  EXPECT_THAT(message_of(ErrorKind::data, [&] { read_labelled_rows(path, {.max_bad = 0.06}); }),
              HasSubstr("4 of 60 rows could not be used, more than the 3"));
  EXPECT_EQ(read_labelled_rows(path, {.max_bad = 0.07}).bad.size(), 4u);
}

// Rows of 4 to 9 values; the first is about 0.
class LabelColumn : public testing::Test {
 protected:
  std::string row(int i, bool label, int values) {
    std::string text = label ? fmt::format("{},", i % 2 + 1) : "";
    for (int k = 0; k < values; ++k) text += fmt::format("{}0.{}{}", k ? "," : "", i, k + 1);
    return text + std::string(static_cast<size_t>(9 - values), ',') + "\n";
  }
  std::string table(bool label, int rows = 10, int least = 4, int most = 9) {
    std::string text;
    for (int i = 0; i < rows; ++i) text += row(i, label, least + i % (most - least + 1));
    return text;
  }
  RowsInput trained_on(const std::string& content) {
    const LabelledRows rows = read_labelled_rows(folder_.write("train.csv", content), {});
    std::vector<int64_t> all(rows.values.size());
    std::iota(all.begin(), all.end(), 0);
    RowsInput input{.scaling = {Scaling{}}};
    fit_label_evidence(rows, all, classes_, input);
    return RowsInput::from_json(input.json(), "f");
  }
  /// What is found, and the note.
  std::pair<std::string, std::string> found(const std::string& content, const RowsInput& input) {
    RowFile file = read_rows(folder_.write("new.csv", content));
    const std::string column = find_label_column(file, input, classes_);
    EXPECT_EQ(file.notes.size(), 1u);
    return {column, file.notes.front()};
  }
  std::string refused(const std::string& content, const RowsInput& input) {
    return message_of(ErrorKind::data, [&] { found(content, input); });
  }

  TemporaryFolder folder_;
  std::vector<std::string> classes_ = {"1", "2"};
};

TEST_F(LabelColumn, IsToldByWhatStandsInIt) {
  const RowsInput input = trained_on(table(true, 120));
  EXPECT_EQ(input.least_steps, 4);
  EXPECT_EQ(input.most_steps, 9);
  EXPECT_LT(*input.class_like, 0.01);
  const auto [column, note] = found(table(true), input);
  EXPECT_EQ(column, "1");
  EXPECT_THAT(note, AllOf(HasSubstr("10 of the 10 rows"), HasSubstr("--label-column none")));
  const auto [none, other] = found(table(false), input);
  EXPECT_EQ(none, "none");
  EXPECT_THAT(other, AllOf(HasSubstr("without a label"), HasSubstr("--label-column 1")));
  // Whatever the lengths, and of a single row.
  EXPECT_EQ(found(table(true, 10, 4, 8), input).first, "1");
  EXPECT_EQ(found(table(false, 10, 5, 9), input).first, "none");
  EXPECT_EQ(found(table(true, 1), input).first, "1");
  EXPECT_EQ(found(table(false, 1), input).first, "none");
}

TEST_F(LabelColumn, IsRefusedWhereValuesAreLikeClasses) {
  std::string rows;  // the first value is 1 or -1
  for (int i = 0; i < 60; ++i) {
    rows += fmt::format("{},{},0.5,0.25,{}\n", i % 2 + 1, i % 2 ? -1 : 1, i % 3 ? "1.5" : "");
  }
  const RowsInput input = trained_on(rows);
  EXPECT_NEAR(*input.class_like, 0.5, 0.01);
  EXPECT_THAT(refused("1,0.5,0.25,2\n1,0.75,0.5,2\n2,0.75,0.5,2\n", input),
              AllOf(HasSubstr("column 1 may be the label or a value"),
                    HasSubstr("--label-column 1 or --label-column none")));
  // A row longer than every row of training is no unlabelled one.
  EXPECT_EQ(found("1,1,0.5,0.25,1.5\n2,-1,0.5,0.25,\n", input).first, "1");
  EXPECT_EQ(found("-1,0.5,0.25\n1,0.75,0.5\n", input).first, "none");
}

TEST_F(LabelColumn, IsToldByFormAndName) {
  RowsInput input{.features = 2, .most_steps = 4, .scaling = {Scaling{}, Scaling{}}};
  EXPECT_EQ(found("1,5,6,7,8\n2,5,6,7,8\n", input).first, "1");
  EXPECT_EQ(found("1,5,6,7\n2,5,6,7\n", input).first, "none");
  EXPECT_THAT(found("1,5,6,7\n2,5,6,7\n", input).second,
              HasSubstr("without a label in column 1: none of the 2 rows can be read with one"));
  EXPECT_THAT(found("1,5,6,7,8\n", input).second,
              HasSubstr("as the label: not even the one row can be read without one"));
  EXPECT_THAT(refused("1,5,6,7,8\n2,5,6,7,\n", input),
              HasSubstr("or a value: 1 row can be read with one only, 1 without one only"));
  EXPECT_THAT(refused("x,y\n", input), HasSubstr("or a value: no row can be read in either way"));
  input.features = 1;
  classes_ = {"up", "down"};
  EXPECT_EQ(found("up,5,6\ndown,7,8\n", input).first, "1");
  EXPECT_EQ(found("4,5,6\n6,7,8\n", input).first, "none");
  // Behind the values, and behind what pads them.
  input.label_column = "4";
  classes_ = {"1", "2"};
  EXPECT_EQ(found("0.5,0.6,,1\n0.7,0.8,0.9,2\n", input).first, "4");
  classes_ = {"up", "down"};
  input.label_column = "9";
  EXPECT_EQ(found("4,5,6\n6,7,8\n", input).first, "none");
  input.label_column = "kind";
  EXPECT_EQ(found("a,b\n6,7\n", input).first, "none");
  EXPECT_THAT(refused("a,kinds\n6,7\n", input), HasSubstr("Did you mean 'kinds'"));
  EXPECT_THAT(refused("a,label\n6,7\n", input),
              AllOf(HasSubstr("has no 'kind'"), HasSubstr("calls column 2 'label'"),
                    HasSubstr("--label-column 2 or --label-column none")));
  RowFile named = read_rows(folder_.write("n.csv", "a,kind\n6,up\n"));
  EXPECT_EQ(find_label_column(named, input, classes_), "kind");
  RowFile capital = read_rows(folder_.write("n.csv", "a,Kind\n6,up\n"));
  EXPECT_EQ(find_label_column(capital, input, classes_), "kind");
}

TEST_F(LabelColumn, OfOlderWeightsIsToldByLengthAsBefore) {
  const RowsInput older{.most_steps = 9, .scaling = {Scaling{}}};
  EXPECT_EQ(found(table(true, 10, 9, 9), older).first, "1");
  EXPECT_EQ(found(table(false, 10, 9, 9), older).first, "none");
}

TEST_F(LabelColumn, NoneMeansValuesOnly) {
  const auto path = folder_.write("n.csv", "1,2\n3,4\n");
  const LabelledRows rows = read_labelled_rows(path, {.label_column = "none", .max_bad = 0});
  EXPECT_THAT(rows.labels, IsEmpty());
  EXPECT_THAT(rows.values, ElementsAre(ElementsAre(1, 2), ElementsAre(3, 4)));
}

// A rank that reads a large table does not hang.
TEST(RowTables, EveryRowReadIsProgress) {
  const TemporaryFolder folder;
  std::string rows, texts = "label,text\n";
  for (int i = 0; i < 100; ++i) {
    rows += fmt::format("{}\t1\n", i % 2);
    texts += fmt::format("{},some text\n", i % 2);
  }
  const auto counted = [](const auto& read) {
    const uint64_t before = work_progress().count;
    read();
    return work_progress().count - before;
  };
  const std::string table = folder.write("r.tsv", rows), labelled = folder.write("t.csv", texts);
  const SeriesInput input{.columns = {"2"}, .targets = {"2"}};
  // As a row of the file, and as what it holds.
  EXPECT_GE(counted([&] { read_labelled_rows(table, {.max_bad = 0}); }), 200u);
  EXPECT_GE(counted([&] { read_series(table, input, 0); }), 200u);
  EXPECT_GE(counted([&] { read_labelled_text(labelled, by_name); }), 200u);
}

// --- series --------------------------------------------------------------------------------------

TEST(SeriesTables, AgainstTheOrderOfTimeIsTold) {
  const TemporaryFolder folder;
  const SeriesInput input{.columns = {"v"}, .targets = {"v"}};
  const auto notes = [&](const std::string& content) {
    return read_series(folder.write("s.csv", content), input, 0).notes;
  };
  EXPECT_THAT(notes("day,v\n2023-01-01,1\n2023-01-02,2\n2023-01-03,3\n"), IsEmpty());
  EXPECT_THAT(notes("day,v\n2023-01-01,1\n2023-01-02,2\n2023-01-02,3\n"),
              ElementsAre(HasSubstr("1 of 3 rows has the time of the row before")));
  EXPECT_THAT(
      notes("day,v\n2023-01-03,1\n2023-01-02,2\n2023-01-01,3\n"),
      ElementsAre(HasSubstr("its 3 rows run backward in time, from 2023-01-03 to 2023-01-01")));
  EXPECT_THAT(notes("day,v\n2023-01,1\n2023-03,2\n2023-02,3\n"),
              ElementsAre(HasSubstr("1 of 3 rows is older than the row before")));
  EXPECT_THAT(notes("day,v\n3,1\n2,2\n"), IsEmpty()) << "no dates";
}

TEST(SeriesTables, AForecastNamesTheRowThatItCannotUse) {
  const TemporaryFolder folder;
  SeriesInput input{.columns = {"1"}, .targets = {"1"}, .window = 2};
  input.scaling = {Scaling{}};
  input.target_scaling = {Scaling{}};
  const auto refused = [&](const std::string& content) {
    const Series series = read_series(folder.write("s.csv", content), input, 1);
    return message_of(ErrorKind::data, [&] { last_window(series, input); });
  };
  EXPECT_THAT(refused("1,0\n2\n3,0\nNA,0\n"),
              AllOf(HasSubstr("s.csv:4: expected a number in column 1, got 'NA'; a forecast reads "
                              "the last 2 rows"),
                    HasSubstr("let the file end before it")));
  EXPECT_THAT(refused("1,0\nNA,0\n3\n4,0\n"), HasSubstr("s.csv:3: expected 2 fields"));
  EXPECT_THAT(
      refused("1,0\n"),
      HasSubstr("expected at least 2 rows to forecast from, got 1: a forecast reads the last "
                "rows of the file"));
  const Series usable = read_series(folder.write("s.csv", "NA,0\n2,0\n3,0\n"), input, 1);
  EXPECT_EQ(last_window(usable, input).size(), 1);
}

TEST(SeriesTables, ARowOfAnotherFormIsNoWindowAlsoAtTheEnd) {
  const TemporaryFolder folder;
  const SeriesInput input{.columns = {"1"}, .targets = {"1"}};
  const Series series = read_series(folder.write("s.csv", "1,0\n2,0\n3,0,0\n"), input, 1);
  ASSERT_EQ(series.rows(), 3);
  EXPECT_TRUE(std::isnan(series.at(2, 0)));
  const SeriesInput first{.columns = {"1"}, .targets = {"1"}, .header = Header::present};
  EXPECT_EQ(read_series(folder / "s.csv", first, 1).rows(), 2);
}

}  // namespace
}  // namespace whisker::test
