// Which columns of a table of texts are read, and when that is refused.
#include "data/sequences/text_columns.h"

#include "core/error.h"
#include "table_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TextColumnsTest : public TableFile {};

const std::string short_rows = "pos,good\nneg,bad\npos,fine\nneg,poor\n";

TEST_F(TextColumnsTest, RowsOfTypesAndSecondNamesAreNoExamples) {
  EXPECT_THAT(texts_refused("label,text\nstr,<chr>\n" + short_rows),
              AllOf(HasSubstr("t.csv:2: the row ('str', '<chr>') holds types of columns"),
                    HasSubstr("data.header=false")));
  EXPECT_THAT(texts_refused("label,text\nstr,str\n" + short_rows,
                            {.label_column = "label", .text_column = "text"}),
              HasSubstr("t.csv:2: "));
  EXPECT_THAT(texts_refused("object,object\nkind,line\n" + short_rows), HasSubstr("t.csv:1: "));
  EXPECT_THAT(texts_refused("# made,by me\nlabel,text\n" + short_rows),
              AllOf(HasSubstr("t.csv:2: the row ('label', 'text') holds names of columns"),
                    HasSubstr("Remove the row above it")));
  EXPECT_THAT(texts_refused("# made,by me\n" + short_rows + "one,text\n"),
              HasSubstr("t.csv:1: the first row may hold the names of the columns"));
  // As the user says, as the model's classes tell, and as older runs did.
  EXPECT_EQ(texts("str,str\n" + short_rows, {.header = Header::absent}).classes.size(), 3u);
  EXPECT_EQ(texts("date,string\n" + short_rows, {.header = Header::present}).classes.size(), 2u);
  EXPECT_EQ(texts("category,string\n" + short_rows).classes.size(), 2u);
  EXPECT_EQ(texts("str,str\n" + short_rows, {.classes = {"neg", "pos", "str"}}).bad.size(), 0u);
  EXPECT_EQ(texts("str,str\nlabel,text\n" + short_rows, {.rules = 1}).classes.size(), 4u);
}

// As AG News has them: class, title, description.
TEST_F(TextColumnsTest, OfTwoColumnsOfTextNobodyChoosesOne) {
  const std::string news = "1,a b c,d e f g\n2,b c d,e f g h\n1,c d e,f g h i\n2,d e f,g h i j\n";
  EXPECT_THAT(texts_refused("class,Title,Description\n" + news),
              HasSubstr("the text may be column 2 ('Title') or column 3 ('Description'), and one "
                        "column is read. Set data.text.text_column=2 or data.text.text_column=3."));
  EXPECT_THAT(texts_refused(news), HasSubstr("the text may be column 2 or column 3"));
  EXPECT_THAT(texts_refused("1,17,a b c,d e f g\n2,18,b c d,e f g h\n"),
              HasSubstr("may be column 2 or column 3 or column 4, and one"));
  EXPECT_THAT(texts_refused("class,review,comment\n" + news), HasSubstr("('review') or"));
  EXPECT_THAT(texts("class,text,title\n" + news).notes,
              Contains(HasSubstr("of 3 columns, 1 and 2 are read; not read: column 3 ('title') "
                                 "(data.text.text_column, data.label_column)")));
  EXPECT_EQ(texts("class,review,title\n" + news).examples.size(), 4u);
  EXPECT_EQ(texts(news, {.text_chosen = true}).examples.size(), 4u);
  EXPECT_EQ(texts(news, {.text_column = "3", .text_chosen = true}).examples[0].text, "d e f g");
  EXPECT_EQ(texts("class,Title,Description\n" + news, {.text_column = "Title"}).examples.size(),
            4u);
  EXPECT_EQ(texts(news, {.classes = {"1", "2"}}).examples.size(), 4u);
  EXPECT_EQ(texts(news, {.rules = 1}).examples.size(), 4u);
}

TEST_F(TextColumnsTest, DatesAndAuthorsAreNoTexts) {
  const std::string rows = "1,a b c,1 May 2020\n2,b c d,2 May 2020\n1,c d e,3 May 2020\n";
  for (const char* names : {"label,sms,date\n", "label,sms,note\n", "label,news,Authors\n"}) {
    EXPECT_EQ(texts(names + rows).examples.size(), 3u) << names;
  }
  EXPECT_THAT(texts_refused("label,news,note\n" + rows), HasSubstr("the text may be column 2"));
}

TEST_F(TextColumnsTest, ColumnsThatNothingReadsAreNamed) {
  const std::string rows = "pos,good,7,\nneg,bad,8,\npos,fine,9,\nneg,poor,7,\n";
  EXPECT_THAT(texts("label,text,user,\n" + rows).notes,
              ElementsAre(HasSubstr("the first row"), HasSubstr("not read: column 3 ('user') (")));
  const LabelledTextOptions named{.label_column = "label", .text_column = "text"};
  EXPECT_THAT(texts("label,text,user,\n" + rows, named).notes, IsEmpty());
}

TEST_F(TextColumnsTest, TextsBeforeTheirLabelsAreNoLabels) {
  std::string turned;
  for (int i = 0; i < 12; ++i) turned += fmt::format("so it is {},{}\n", i, i % 2 ? "pos" : "neg");
  EXPECT_THAT(
      texts_refused(turned),
      AllOf(HasSubstr("column 1 is read as the label and column 2 as the text, but the first "
                      "holds 12 labels in 12 rows, and the second 2 texts"),
            HasSubstr("data.label_column=2 and data.text.text_column=1")));
  EXPECT_EQ(texts(turned, {.label_column = "2", .text_column = "1"}).classes.size(), 2u);
  EXPECT_EQ(texts(turned, {.label_chosen = true, .text_chosen = true}).classes.size(), 12u);
}

}  // namespace
}  // namespace whisker::test
