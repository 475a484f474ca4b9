// Which first rows are headers, and what their names contradict.
#include "data/sequences/table_header.h"

#include "core/error.h"
#include "table_file.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TableHeader : public TableFile {};

const std::string two_rows = "1,0.5,0.25\n2,1.5,1\n";

TEST_F(TableHeader, OfRowsAndSeriesIsTold) {
  const auto note =
      AllOf(HasSubstr("t.csv: the first row ("), HasSubstr("is read as the names of the columns"),
            HasSubstr("data.header=false"));
  EXPECT_THAT(rows("kind,a,b\n" + two_rows).notes, ElementsAre(note));
  EXPECT_THAT(rows("a,b\n0.5,1\n", {.label_column = "none"}).notes, ElementsAre(note));
  const SeriesInput input{.columns = {"2"}, .targets = {"2"}};
  EXPECT_THAT(series("day,value\n1,5\n2,6\n", input).notes, ElementsAre(note));
  // Where it was asked for, nothing was assumed.
  EXPECT_THAT(rows("kind,a,b\n" + two_rows, {.header = Header::present}).notes, IsEmpty());
  EXPECT_THAT(rows("kind,a,b\n" + two_rows, {.label_column = "kind"}).notes, IsEmpty());
  const SeriesInput named{.columns = {"value"}, .targets = {"value"}};
  EXPECT_THAT(series("day,value\n1,5\n2,6\n", named).notes, IsEmpty());
}

TEST_F(TableHeader, IsNoRowOfMissingValues) {
  for (const char* first : {"0,NA,NA\n", "0,?,nan\n", "0,,\n", "0,-,1e31\n", "0,-inf,null\n"}) {
    const LabelledRows found = rows(first + two_rows);
    EXPECT_THAT(found.labels, ElementsAre("1", "2")) << first;
    ASSERT_EQ(found.bad.size(), 1u) << first;
    EXPECT_EQ(found.bad[0].line, 1) << first;
    EXPECT_THAT(found.names, IsEmpty()) << first;
  }
  // Nor one whose label is a number or that of other rows.
  EXPECT_EQ(rows("0,error,error\n" + two_rows).bad.size(), 1u);
  EXPECT_EQ(rows("up,error,error\nup,1,2\ndown,2,1\n").bad.size(), 1u);
  EXPECT_EQ(rows("?,0.5,0.25\n" + two_rows).labels.size(), 3u);
  const LabelledRowsOptions trained{.classes = {"down", "up"}};
  EXPECT_EQ(rows("up,error,error\ndown,2,1\n", trained).bad.size(), 1u);
  for (const char* first : {"0,NA\n", "0,\n", "0,1e31\n", "0,.\n"}) {
    const SeriesInput input{.columns = {"2"}, .targets = {"2"}};
    const Series found = series(first + std::string("1,5\n2,6\n"), input);
    EXPECT_EQ(found.rows(), 3) << first;
    EXPECT_TRUE(std::isnan(found.at(0, 0))) << first;
    EXPECT_EQ(found.bad.size(), 1u) << first;
  }
}

TEST_F(TableHeader, TwoColumnsOfOneNameAreRefused) {
  EXPECT_THAT(rows_refused("label,a,label\n" + two_rows, {.label_column = "label"}),
              HasSubstr("t.csv:1: columns 1 and 3 are called 'label'"));
  EXPECT_THAT(texts_refused("label,text,text\npos,a,b\nneg,c,d\n",
                            {.label_column = "label", .text_column = "text"}),
              HasSubstr("columns 2 and 3 are called 'text'"));
  const SeriesInput input{.columns = {"v"}, .targets = {"v"}};
  EXPECT_THAT(message_of(ErrorKind::data, [&] { series("v,v\n1,2\n", input); }),
              HasSubstr("columns 1 and 2 are called 'v'"));
  EXPECT_EQ(series("v,v\n1,2\n", input, 1).at(0, 0), 1);
}

TEST_F(TableHeader, NamesMatchInAnotherCase) {
  const LabelledText found =
      texts("Label,TEXT\npos,a\nneg,b\n", {.label_column = "label", .text_column = "text"});
  EXPECT_EQ(found.examples.size(), 2u);
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("column 1 ('Label') is read as 'label'"),
                                       HasSubstr("column 2 ('TEXT') is read as 'text'")));
}

TEST_F(TableHeader, ThatCallsAnotherColumnTheLabelIsRefused) {
  for (const char* word : {"label", "Class", " target", "y"}) {
    for (const Header header : {Header::automatic, Header::present}) {
      EXPECT_THAT(rows_refused(fmt::format("a,b,{}\n", word) + two_rows, {.header = header}),
                  AllOf(HasSubstr("column 1 is read as the label, but the first row calls it 'a'"),
                        HasSubstr(fmt::format("column 3 '{}'", word)),
                        HasSubstr("data.label_column=a or ")))
          << word;
    }
  }
  EXPECT_THAT(rows_refused("length (cm),b,label\n" + two_rows),
              HasSubstr("'data.label_column=length (cm)' or data.label_column=label"))
      << "for a shell";
  const std::string header = "a,b,label\n" + two_rows;
  EXPECT_THAT(rows(header, {.label_column = "a"}).labels, ElementsAre("1", "2"));
  EXPECT_THAT(rows(header, {.label_column = "3"}).labels, ElementsAre("0.25", "1"));
  EXPECT_THAT(rows("sentiment,b,class\n" + two_rows).labels, ElementsAre("1", "2"));
  EXPECT_THAT(rows("pose,x,y\n" + two_rows).labels, ElementsAre("1", "2")) << "coordinates";
  EXPECT_THAT(rows_refused("x,b,y\n" + two_rows), HasSubstr("column 3 'y'"));
}

TEST_F(TableHeader, OfTextsThatCallsOtherColumnsIsRefused) {
  const std::string turned = "text,label\ngood,pos\nbad,neg\n";
  EXPECT_THAT(texts_refused(turned), HasSubstr("column 2 'label'"));
  EXPECT_THAT(texts_refused(turned, {.label_column = "label"}),
              AllOf(HasSubstr("column 2 is read as the text"), HasSubstr("column 1 'text'"),
                    HasSubstr("--text-column")));
  EXPECT_EQ(texts(turned, {.label_column = "label", .text_column = "1"}).examples.size(), 2u);
  EXPECT_THAT(texts_refused("label,id,text\npos,7,a\nneg,8,b\n"),
              HasSubstr("data.text.text_column=id or data.text.text_column=text"));
  EXPECT_EQ(texts("label,review,text\npos,a,b\nneg,c,d\n").examples.size(), 2u);
}

TEST_F(TableHeader, NamesOfTrainingAreCompared) {
  const LabelledRows train = rows("label,a,b\n" + two_rows);
  EXPECT_THAT(train.names, ElementsAre("a", "b"));
  RowsInput input{.most_steps = 2, .scaling = {Scaling{}}, .names = train.names};
  input = RowsInput::from_json(input.json(), "w");
  const LabelledRowsOptions known{.names = input.names};
  const LabelledRowsOptions behind{.label_column = "3", .names = input.names};
  const LabelledRowsOptions nowhere{.label_column = "none", .names = input.names};
  EXPECT_THAT(rows_refused("label,b,a\n" + two_rows, known),
              AllOf(HasSubstr("expected column 2 to be 'a' as in the training data, got 'b'"),
                    HasSubstr("'a', 'b'")));
  // The label elsewhere or nowhere, a shorter table, another case, none: all the same columns.
  EXPECT_EQ(rows("A, b,label\n0.5,0.25,1\n1.5,1,2\n", behind).labels.size(), 2u);
  EXPECT_EQ(rows("a,b\n1,2\n", nowhere).values.size(), 1u);
  EXPECT_EQ(rows("label,a\n1,2\n", known).values.size(), 1u);
  EXPECT_EQ(rows(two_rows, known).values.size(), 2u);
  // Weights that are older, or of a table without a header.
  input.names.clear();
  EXPECT_THAT(input.json(), testing::Not(HasSubstr("names")));
  EXPECT_EQ(rows("label,b,a\n" + two_rows).values.size(), 2u);

  SeriesInput of_series{
      .columns = {"2"}, .targets = {"2"}, .scaling = {{}}, .target_scaling = {{}}};
  of_series.names = series("day,v,w\n1,5,7\n", of_series).names;
  EXPECT_THAT(of_series.names, ElementsAre("v"));
  of_series = SeriesInput::from_json(of_series.json(), "w");
  EXPECT_THAT(message_of(ErrorKind::data, [&] { series("day,w,v\n1,7,5\n", of_series); }),
              HasSubstr("expected column 2 to be 'v' as in the training data, got 'w'"));
  EXPECT_EQ(series("1,5,7\n", of_series).rows(), 1);
}

// Types and units stand below names or above them.
TEST_F(TableHeader, OfTwoRowsIsRefused) {
  const auto both = [](const char* upper, const char* lower) {
    return AllOf(HasSubstr("t.csv:2: the row ("), HasSubstr(lower), HasSubstr(upper),
                 HasSubstr("data.header=true"));
  };
  for (const char* other : {"int,float,<dbl>", ",m,kg", "(class),(m),%", "# made,by,me"}) {
    const std::string names = "label,a,b\n", types = std::string(other) + "\n";
    EXPECT_THAT(rows_refused(names + types + two_rows), both("('label', ", ")")) << other;
    EXPECT_THAT(rows_refused(types + names + two_rows), both(")", "('label', 'a', 'b')")) << other;
    const SeriesInput input{.columns = {"2", "3"}, .targets = {"2"}};
    EXPECT_THAT(message_of(ErrorKind::data, [&] { series(names + types + two_rows, input); }),
                both("('label', ", ")"));
    // With the names known, the other row is one that cannot be used; older runs skipped it.
    EXPECT_EQ(rows(names + types + two_rows, {.header = Header::present}).bad.at(0).line, 2);
    EXPECT_EQ(rows(names + types + two_rows, {.label_column = "label"}).bad.at(0).line, 2);
    EXPECT_EQ(series(names + types + two_rows, input, 1).bad.at(0).line, 2);
  }
  // A row with a number, a date or a missing value is an example; so is one of another row's class.
  EXPECT_EQ(rows("label,a,b\nup,NA,n/a\nleft,1,2\ndown,2,1\n").bad.size(), 1u);
  EXPECT_EQ(rows("label,a,b\n1,x,y\n" + two_rows).bad.size(), 1u);
  EXPECT_EQ(rows("label,a,b\nup,x,y\nup,1,2\ndown,2,1\n").bad.size(), 1u);
  const SeriesInput input{.columns = {"2"}, .targets = {"2"}};
  EXPECT_EQ(series("day,v\n2020-01-01,x\n2020-01-02,5\n", input).bad.size(), 1u);
}

TEST_F(TableHeader, StandsBelowComments) {
  const LabelledRows found = rows("# made by me\r\n# in, 2020\n\nlabel;a;b\n1;0.5;2\n2;x;1\n");
  EXPECT_THAT(found.names, ElementsAre("a", "b"));
  EXPECT_EQ(found.bad.at(0).line, 6);
  EXPECT_THAT(found.notes,
              testing::Contains(
                  AllOf(HasSubstr("t.csv: line 1 ('# made by me"),
                        HasSubstr("and others up to line 3 are not read: comments begin with #"))));
  EXPECT_THAT(rows("# it's \"quoted\n" + two_rows).notes,
              ElementsAre(HasSubstr("line 1 ('# it's \"quoted') is not read")));
  EXPECT_EQ(series("# a\n1,5\n2,6\n", {.columns = {"2"}, .targets = {"2"}}).rows(), 2);
  // With as many fields as a row it is one, or holds names.
  EXPECT_EQ(rows("#a,0.5,1\n#b,1,2\n#a,2,3\n").labels.size(), 3u);
  EXPECT_THAT(rows("#label,a,b\n" + two_rows).names, ElementsAre("a", "b"));
  EXPECT_EQ(rows("\"# a, b\",0.5,1\nup,1,2\n").labels.size(), 2u);
  const LabelledRowsOptions then{.rules = 1};
  EXPECT_THAT(rows_refused("# made by me\n" + two_rows, then),
              HasSubstr("no row could be used. The first, line 2: "));
}

// Runs of before data.header, with the rules of then.
TEST_F(TableHeader, OfOlderRunsIsReadAsThen) {
  const LabelledRowsOptions then{.rules = 1};
  EXPECT_THAT(rows("label,0,1\n" + two_rows, then).labels, ElementsAre("label", "1", "2"));
  EXPECT_THAT(rows("label,0,1\n" + two_rows, {.label_column = "label", .rules = 1}).labels,
              ElementsAre("label", "1", "2"));
  EXPECT_THAT(rows("0,NA,NA\n" + two_rows, then).labels, ElementsAre("1", "2"));
  EXPECT_THAT(rows("0,NA,NA\n" + two_rows, then).bad, IsEmpty());
  EXPECT_THAT(rows("a,b,label\n" + two_rows, then).labels, ElementsAre("1", "2"));
  EXPECT_THAT(rows("label,a,b\n" + two_rows, then).names, IsEmpty());
  EXPECT_EQ(rows(two_rows + "1,2,NaN\n", then).bad.size(), 1u);
  EXPECT_THAT(rows("label,a,label\n" + two_rows, {.label_column = "label", .rules = 1}).labels,
              ElementsAre("1", "2"));
  const SeriesInput input{.columns = {"2"}, .targets = {"2"}};
  for (const int rules : {1, 2}) EXPECT_EQ(series("0,NA\n1,5\n", input, rules).rows(), 1);
}

// Runs of data.rules 2, which know headers of rows by a word, and padding.
TEST_F(TableHeader, OfRunsOfRulesTwoIsReadAsThen) {
  const LabelledRowsOptions then{.rules = 2};
  for (const char* header : {"label,0,1\n", "0,NA,NA\n", "a,b,label\n", "label,a,b\n"}) {
    EXPECT_THAT(rows(header + two_rows, then).labels, ElementsAre("1", "2")) << header;
    EXPECT_THAT(rows(header + two_rows, then).names, IsEmpty());
  }
  EXPECT_THAT(rows("a,b,label\n" + two_rows, then).notes,
              testing::Contains(HasSubstr("data.rules 2 reads what newer ones refuse: ")));
  EXPECT_THAT(rows("0,1,2\n" + two_rows, then).labels, ElementsAre("0", "1", "2"));
  EXPECT_THAT(rows(two_rows + "1,2,NaN\n", then).bad, IsEmpty());
  EXPECT_THAT(rows("label,a,label\n" + two_rows, {.label_column = "label", .rules = 2}).labels,
              ElementsAre("1", "2"));
}

}  // namespace
}  // namespace whisker::test
