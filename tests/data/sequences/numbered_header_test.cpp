// First rows of numbers: those that number the columns, those that are examples, and those of which
// nobody knows.
#include "core/error.h"
#include "data/sequences/label_reading.h"
#include "table_file.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class NumberedHeaders : public TableFile {
 protected:
  Series series(const std::string& content, const char* column,
                int rules = newest_data_rules) const {
    return TableFile::series(content, {.columns = {column}, .targets = {column}}, rules);
  }
};

const auto is_noted = ElementsAre(AllOf(HasSubstr("t.csv: the first row ("),
                                        HasSubstr("is read as the names of the columns"),
                                        HasSubstr("data.header=false")));
const std::string lettered = "a,0.5,0.25,1\nb,1.5,1,2\na,2,1,0.1\nb,1,0.5,0\n";
const std::string digits = "1,0.5,0.25,1\n0,1.5,1,2\n1,2,1,0.5\n0,1,5,0\n";

TEST_F(NumberedHeaders, OfRowsAreTold) {
  for (const char* first : {"0,1,2,3\n", "1,2,3,4\n", "kind,0,1,2\n"}) {
    const LabelledRows found = rows(first + lettered);
    EXPECT_THAT(found.labels, ElementsAre("a", "b", "a", "b")) << first;
    EXPECT_THAT(found.notes, is_noted) << first;
  }
  // Its label is one of other rows, or of the model.
  EXPECT_THAT(rows("0,1,2,3\n" + digits).labels, ElementsAre("1", "0", "1", "0"));
  EXPECT_THAT(rows("0,1,2,3\n" + digits).notes, is_noted);
  EXPECT_EQ(rows("0,1,2,3\n" + digits, {.classes = {"0", "1"}}).labels.size(), 4U);
  EXPECT_EQ(rows("0,1,2,3\n0.5,2,7,4\n", {.label_column = "none"}).values.size(), 1U);
  // An index in front, as pandas writes it; the label behind.
  EXPECT_THAT(rows(",0,1\n7,a,0.5\n8,b,0.25\n", {.label_column = "2"}).labels,
              ElementsAre("a", "b"));
  EXPECT_THAT(rows("0,1,2,kind\n0.5,2,1,a\n0.25,1,7,b\n", {.label_column = "4"}).labels,
              ElementsAre("a", "b"));
  // Wavelengths.
  EXPECT_THAT(rows("kind,400,402,404,406,408\na,5,3,1,4,2\nb,5,3,2,4,2\n").labels,
              ElementsAre("a", "b"));
}

TEST_F(NumberedHeaders, AreNoExamples) {
  for (const std::string content :
       {"0,1,2,3\n1,2,3,4\n0,3,4,5\n",          // rows that all count
        "1,2,3,4\n5,2,1,0.5\n1,2,3,4\n",        // a row that is there twice
        "up,0,1\ndown,1,2\n", "0,1\n1,0\n",     // too few numbers to tell
        "up,0,1,2\nup,0.5,7,1\ndown,0,5,5\n",   // a class of other rows
        "5,6,7\n9,1,3\n", "0,1,,3\n1,5,6,7\n",  // no columns would be called so
        "0,2,1,3\n1,0.5,0.5,2\n", "3,2,1,0\n1,0.5,0.5,2\n"}) {
    const auto lines = static_cast<size_t>(std::ranges::count(content, '\n'));
    const LabelledRows found = rows(content);
    EXPECT_EQ(found.labels.size() + found.bad.size(), lines) << content;
    EXPECT_THAT(found.names, IsEmpty()) << content;
  }
  const LabelledRowsOptions trained{.classes = {"up"}};
  EXPECT_EQ(rows("up,0,1,2\ndown,0.5,0.25,7\n", trained).labels.size(), 2U);
}

TEST_F(NumberedHeaders, ThatMayBeExamplesAreRefused) {
  for (const char* content : {"0,1,2\n1,0,2\n0,9,5\n", "1,2,3\n2,0.5,7\n3,0.25,6\n"}) {
    EXPECT_THAT(message_of(ErrorKind::data, [&] { rows(content); }),
                AllOf(HasSubstr("t.csv:1: the first row ("), HasSubstr("may number the columns"),
                      HasSubstr("data.header=true or data.header=false")))
        << content;
    EXPECT_EQ(rows(content, {.header = Header::absent}).labels.size(), 3U);
    EXPECT_EQ(rows(content, {.header = Header::present}).labels.size(), 2U);
  }
}

TEST_F(NumberedHeaders, OfTextsAreTold) {
  const LabelledText words = texts("0,1\npos,good\nneg,bad\n");
  EXPECT_THAT(words.classes, ElementsAre("neg", "pos"));
  EXPECT_THAT(words.notes, is_noted);
  EXPECT_EQ(texts("0,1\n1,good\n0,bad\n1,fine\n").examples.size(), 3U);
  EXPECT_EQ(texts("0,1,2\n1,good,7\n0,bad,9\n1,fine,8\n").examples.size(), 3U);
  // The number of an example, its label and its text.
  const LabelledText numbered =
      texts("1,2,good\n2,1,bad\n3,2,fine\n", {.label_column = "2", .text_column = "3"});
  EXPECT_EQ(numbered.examples.size(), 3U);
}

TEST_F(NumberedHeaders, OfTextsAreExamplesWhereTextsBeginWithDigits) {
  for (const char* content : {"1,10/10 would watch again\n0,bad\n1,good\n",
                              "1,good\n0,5 stars\n1,10 of 10\n", "0,12 men\n0,bad\n1,good\n"}) {
    EXPECT_EQ(texts(content).examples.size(), 3U) << content;
  }
  EXPECT_EQ(texts("0,12 men\n1,good\n", {.classes = {"0", "1"}}).examples.size(), 2U);
  const LabelledText numbered =
      texts("1,2,10 of 10\n2,1,bad\n3,2,fine\n", {.label_column = "2", .text_column = "3"});
  EXPECT_EQ(numbered.examples.size(), 3U);
  // Its class is that of no other row.
  EXPECT_THAT(message_of(ErrorKind::data, [&] { texts("1,10/10\n0,bad\n0,awful\n"); }),
              HasSubstr("t.csv:1: the first row may hold the names of the columns, or an example"));
  // Numbers above texts.
  EXPECT_EQ(texts("0,1\n1,good\n0,bad\n1,5 stars\n").examples.size(), 3U);
}

TEST_F(NumberedHeaders, OfSeriesAreTold) {
  for (const char* first : {"0,1\n", "1,2\n", "Date,0\n", ",0\n"}) {
    const Series found = series(first + std::string("2023-01-01,5\n2023-01-02,6\n"), "2");
    EXPECT_EQ(found.rows(), 2) << first;
    EXPECT_THAT(found.notes, is_noted) << first;
  }
  EXPECT_EQ(series("Month,1958,1959,1960\nJAN,340,360,417\nFEB,318,342,391\n", "2").rows(), 2);
  EXPECT_EQ(series("0,1,2\n0.5,9,2\n0.25,8,3\n", "2").rows(), 2);
  for (const char* content : {"0\n5\n6\n", "0,1\n1,5\n2,6\n"}) {
    EXPECT_THAT(series(content, "1").names, IsEmpty()) << content;
    EXPECT_THAT(series(content, "1").notes, IsEmpty()) << content;
  }
  EXPECT_EQ(series("2023-01-01,0\n2023-01-02,1\n", "2").rows(), 2);
  // A run of before keeps it.
  EXPECT_EQ(series("0,1\n2023-01-01,5\n2023-01-02,6\n", "2", 1).rows(), 3);
  EXPECT_EQ(rows("0,1,2,3\n" + lettered, {.rules = 1}).labels.size(), 5U);
}

// classify does not take it for a row with a label, or without.
TEST_F(NumberedHeaders, SaysNothingOfLabels) {
  const RowsInput input{
      .most_steps = 3, .scaling = {Scaling{}}, .least_steps = 3, .class_like = 0.5};
  const std::vector<std::string> classes = {"a", "b"};
  RowFile file = read_rows(folder_.write("t.csv", "0,1,2\n0.5,7,1\n0.25,9,1\n"));
  EXPECT_EQ(find_label_column(file, input, classes), "none");
  EXPECT_THAT(
      file.notes,
      ElementsAre(HasSubstr("in column 1: 0 of the 2 rows that could be either hold a class")));
}

}  // namespace
}  // namespace whisker::test
