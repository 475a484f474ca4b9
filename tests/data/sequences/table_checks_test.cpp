// Headers and separators that whole columns and rows of a table tell.
#include "data/sequences/table_checks.h"

#include "core/error.h"
#include "table_file.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TableChecks : public TableFile {
 protected:
  std::string series_refused(const std::string& content, const SeriesInput& input) const {
    return message_of(ErrorKind::data, [&] { series(content, input); });
  }
};

const SeriesInput second{.columns = {"2"}, .targets = {"2"}};

TEST_F(TableChecks, NumbersAboveAColumnAreNamesWhereAnotherColumnHasOne) {
  const auto note = HasSubstr("is read as the names of the columns");
  for (const char* first : {"date,72503,72504\n", "date,2020,2021\n", ",72503,72504\n"}) {
    const std::string content = fmt::format("{}2023-01-01,5,1\n2023-01-02,6,1\n", first);
    const Series found = series(content, second);
    EXPECT_EQ(found.rows(), 2) << first;
    EXPECT_THAT(found.notes, ElementsAre(note)) << first;
    EXPECT_EQ(series(content, second, 2).rows(), 3) << "older runs: " << first;
  }
  EXPECT_EQ(series("step,3.5,9\n1,5,1\n2,6,1\n", second).rows(), 2);
  EXPECT_EQ(series("date,7,3\n2023-01-01,5,1\ndate,7,3\n2023-01-02,6,1\n", second).bad.size(), 0u);
  // No names: a lag has no first value, a first date is missing or broken.
  EXPECT_EQ(series(",5,1\n7,6,1\n8,7,1\n", second).rows(), 3);
  EXPECT_EQ(series("NA,5,1\n2023-01-01,6,1\n", second).rows(), 2);
  EXPECT_EQ(series("a,5,1\nb,6,1\n", second).rows(), 2);
  // A text's class occurs once, but its day is a name.
  EXPECT_THAT(
      texts("kind,story,day\na,x,2023-01-01\na,y,2023-01-02\nb,z,2023-01-03\nb,u,2023-01-04\n")
          .notes,
      Contains(note));
}

TEST_F(TableChecks, NumberThatIsTheNameOfAnotherColumnIsRefused) {
  const std::string content = "time,3,1\n2023-01-01,5,1\n2023-01-02,6,1\n";
  const SeriesInput third{.columns = {"3"}, .targets = {"3"}};
  EXPECT_THAT(
      series_refused(content, third),
      HasSubstr("3 may be column 3, which is called '1', or column 2, which is called '3'"));
  EXPECT_EQ(series(content, second).rows(), 2);
  SeriesInput older = third;
  older.header = Header::present;
  EXPECT_THAT(series(content, older, 2).notes,
              Contains(HasSubstr("data.rules 2 reads what newer ones refuse")));
  const std::string kinds = "2,kind,a\n1,x,1.5\n3,y,0.5\n";
  EXPECT_THAT(rows_refused(kinds, {.label_column = "2", .header = Header::present}),
              HasSubstr("2 may be column 2, which is called 'kind', or column 1"));
}

TEST_F(TableChecks, RepeatedHeadersAreNotRead) {
  const auto note =
      AllOf(HasSubstr("t.csv: 1 row holds again the names of the columns and is not read"),
            HasSubstr("line 4"), HasSubstr("data.header=false"));
  const std::string content = "label,text\npos,a\nneg,b\nlabel,text\npos,c\n";
  const LabelledText found = texts(content);
  EXPECT_THAT(found.classes, ElementsAre("neg", "pos"));
  EXPECT_THAT(found.notes, Contains(note));
  EXPECT_EQ(texts(content, {.rules = 2}).classes.size(), 3u);
  EXPECT_EQ(texts(content, {.header = Header::absent}).classes.size(), 3u);
  const LabelledTextOptions named{.label_column = "label", .text_column = "text"};
  EXPECT_EQ(texts(content, named).examples.size(), 3u);
  // A class that other rows have.
  EXPECT_EQ(texts("label,text\npos,a\nlabel,b\nlabel,text\n").classes.size(), 2u);

  const LabelledRows labelled = rows("kind,a,b\nx,1,2\ny,3,4\nkind,a,b\nx,5,6\n");
  EXPECT_THAT(labelled.labels, ElementsAre("x", "y", "x"));
  EXPECT_THAT(labelled.notes, Contains(note));
  EXPECT_THAT(labelled.bad, IsEmpty());
  // Between two series no window lies.
  const Series two = series("day,v\n1,5\n2,6\nday,v\n1,7\n", second);
  EXPECT_THAT(two.notes, Contains(note));
  EXPECT_THAT(two.bad, IsEmpty());
  ASSERT_EQ(two.rows(), 4);
  EXPECT_TRUE(std::isnan(two.at(2, 0)));
}

TEST_F(TableChecks, PointsThatMayStandBeforeThousandsAreRefused) {
  EXPECT_THAT(series_refused("day;v\n1;1.021\n2;995\n3;-1.003\n", second),
              AllOf(HasSubstr("t.csv:2: '1.021' in column 2 may be '1021'"),
                    HasSubstr("Write 1021 or 1.0210.")));
  EXPECT_THAT(rows_refused("kind;v\na;2.500\nb;NA\na;412\n"), HasSubstr("'2.500' in column 2"));
  EXPECT_THAT(series("day;v\n1;1.021\n2;995\n", second, 2).notes,
              Contains(HasSubstr("newer ones refuse")));
  for (const char* values : {"1.021|2.003", "1.021|995|0.123", "1.021|995|1.5", "1.021|1995",
                             "1.0210|995", "995|12", "3|7|12.500"}) {
    std::string content = "day;v\n1;";
    for (const char c : std::string(values))
      content += c == '|' ? std::string("\n1;") : std::string(1, c);
    EXPECT_NO_THROW(series(content + "\n", second)) << values;
  }
  EXPECT_NO_THROW(series("day,v\n1,1.021\n2,995\n", second));
}

TEST_F(TableChecks, AnotherSeparatorIsNamed) {
  EXPECT_THAT(texts_refused("label|text\npos|a\nneg|b\n"),
              AllOf(HasSubstr("t.csv:1: expected column 2: fields are read to end at commas"),
                    HasSubstr("'label|text' may be several that end at '|'"),
                    HasSubstr("Separate them by commas; a field with a comma")));
  EXPECT_THAT(texts_refused("pos;a, b\nneg;b, c\npos;d, e\n"),
              AllOf(HasSubstr("'pos;a' may be several that end at semicolons")));
  EXPECT_NO_THROW(texts("a|b,x\na|b,y\nc|d,z\nc|d,u\n")) << "two labels that occur twice";
  folder_.write("t.tsv", "pos,a\nneg,b\n");
  EXPECT_THAT(
      message_of(ErrorKind::data, [&] { read_labelled_text(folder_.path() / "t.tsv", {}); }),
      HasSubstr("end at tabs, but 'pos,a' may be several that end at commas"));
  // As the households of UCI: no column of that name, as there is one.
  folder_.write("t.txt", "Date;Volt\n1/1/2007;2.5\n");
  const SeriesInput volt{.columns = {"Volt"}, .targets = {"Volt"}};
  EXPECT_THAT(
      message_of(ErrorKind::data, [&] { read_series(folder_.path() / "t.txt", volt, 1); }),
      HasSubstr("'Date;Volt' may be several that end at semicolons. Name the file .csv, where "
                "semicolons end fields, or separate them by spaces."));
}

// Iris and many others have it last, with data.label_column left at 1.
TEST_F(TableChecks, LabelInAnotherColumnIsNamed) {
  const auto table = [](const std::string& header, std::initializer_list<const char*> labels) {
    std::string content = header;
    int i = 0;
    for (const char* const label : labels) {
      content += fmt::format("{},1.5,{}\n", 0.5 + i, label);
      ++i;
    }
    return content;
  };
  EXPECT_THAT(rows_refused(table("a,b,kind\n", {"x", "y", "x", "y"})),
              HasSubstr("t.csv: column 1 ('a') is read as the label, and column 3 ('kind') as a "
                        "value, but it holds words in all rows: 'x', 'y'. If they are the labels: "
                        "data.label_column=3 "));
  EXPECT_THAT(rows_refused(table("", {"x", "y", "x", "y"})), HasSubstr("data.label_column=3 "));
  for (const auto& words : {std::initializer_list<const char*>{"u", "v", "x", "y"},
                            {"3%", "4%", "3%", "4%"},
                            {"2020-01-01", "2020-01-02", "2020-01-01", "2020-01-02"}}) {
    EXPECT_THAT(rows_refused(table("", words)), HasSubstr("no row could be used"));
  }
  EXPECT_EQ(rows(table("", {"x", "y", "x", "y"}), {.label_column = "3"}).labels.size(), 4u);
}

TEST_F(TableChecks, LabelsThatAreHardlyClassesAreTold) {
  std::string numbered, measured;
  for (int i = 0; i < 12; ++i) {
    numbered += fmt::format("{},1.5,{}\n", i + 1, i % 2);
    measured += fmt::format("{},1,{}\n", 0.5 + i % 6, i % 2);
  }
  EXPECT_THAT(rows_refused(numbered),
              HasSubstr("t.csv: column 1 is read as the label, and no two of the 12 rows have the "
                        "same: data.label_column names another column."));
  EXPECT_THAT(rows(numbered, {.rules = 2}).notes, Contains(HasSubstr("data.rules 2 reads")));
  EXPECT_THAT(rows("a,b,c\n" + measured).notes,
              Contains(HasSubstr("column 1 ('a') is read as the label, although 12 of 12 rows hold "
                                 "a number with decimals in it: data.label_column names another")));
  EXPECT_THAT(rows(measured, {.label_column = "3"}).notes, IsEmpty());
  EXPECT_THAT(rows(measured, {.classes = {"0.5", "1.5", "2.5", "3.5", "4.5", "5.5"}}).notes,
              IsEmpty());
}

TEST_F(TableChecks, QuotesOfTabSeparatedFilesAreReadWhereAllAreSuch) {
  const auto read = [&](const std::string& content, int rules = newest_data_rules) {
    return read_labelled_text(folder_.write("t.tsv", content), {.max_bad = 0, .rules = rules});
  };
  const std::string pandas = "label\ttext\npos\t\"a \"\"x\"\"\"\nneg\tb\npos\t\"c\td\"\n";
  const LabelledText found = read(pandas);
  ASSERT_EQ(found.examples.size(), 3u);
  EXPECT_EQ(found.examples[0].text, "a \"x\"");
  EXPECT_EQ(found.examples[2].text, "c\td");
  EXPECT_THAT(found.notes, Contains(HasSubstr("in quotes, which are not read")));
  const std::string some = "pos\t\"a \"\"x\"\"\"\nneg\tb\n";
  EXPECT_EQ(read(some, 2).examples[0].text, "\"a \"\"x\"\"\"");
  // Quotes that belong to the text; they are mentioned where some are doubled.
  const LabelledText plain = read("pos\t\"a\" b\nneg\t\"c\"\npos\td\n");
  EXPECT_EQ(plain.examples[1].text, "\"c\"");
  EXPECT_THAT(plain.notes, IsEmpty());
  EXPECT_THAT(read(some + "pos\t5\" long\n").notes,
              Contains(HasSubstr("quotes are read as a part of the text")));
  // A quote that opens in one row and closes in another.
  EXPECT_EQ(read("pos\t\"a\nneg\tb\npos\tc\"\nneg\td\n").examples.size(), 4u);
}

}  // namespace
}  // namespace whisker::test
