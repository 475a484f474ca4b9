#include "data/files/csv.h"

#include "core/error.h"
#include "tests/support/error_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using Fields = std::vector<std::string>;

TEST(Csv, ReadsWhatTheStandardAllows) {
  const auto rows = parse_csv(
      "\xef\xbb\xbfpath,label\r\n\"a,b.jpg\",cat\n\n"
      "\"two\nlines\",\"say \"\"hi\"\"\"\nlast,",
      "x.csv");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].fields, (Fields{"path", "label"}));
  EXPECT_EQ(rows[1].fields, (Fields{"a,b.jpg", "cat"}));
  EXPECT_EQ(rows[2].fields, (Fields{"two\nlines", "say \"hi\""}));
  EXPECT_EQ(rows[2].line, 4);
  EXPECT_EQ(rows[3].fields, (Fields{"last", ""}));
  EXPECT_EQ(rows[3].line, 6);
  EXPECT_TRUE(parse_csv("", "x.csv").empty());
}

std::string error_of(const char* text) {
  return test::message_of(ErrorKind::data, [&] { parse_csv(text, "x.csv"); });
}

TEST(Csv, NamesTheLineOfAMistake) {
  EXPECT_THAT(error_of("a,b\nc\n"), testing::StartsWith("x.csv:2: expected 2 fields"));
  EXPECT_THAT(error_of("a,b\nc,\"d\n\n"), testing::StartsWith("x.csv:2: the quoted field"));
  EXPECT_THAT(error_of("a,b\nc,d\"e\n"), testing::StartsWith("x.csv:2: a field with a quote"));
  EXPECT_THAT(error_of("a,b\nc,\"d\"e\n"), testing::StartsWith("x.csv:2: expected a comma"));
}

TEST(Csv, SeparatorsOtherThanCommas) {
  EXPECT_EQ(csv_separator("a;b,c\n"), ',');
  EXPECT_EQ(csv_separator("a;b\nc,d\n"), ';');
  EXPECT_EQ(csv_separator("a\tb\n"), '\t');
  EXPECT_EQ(csv_separator("a\nb;c\n"), ',');
  const auto rows = parse_csv("a;\"b;c\"\n1,5;2\n", "x.csv", ';');
  EXPECT_EQ(rows[0].fields, (Fields{"a", "b;c"}));
  EXPECT_EQ(rows[1].fields, (Fields{"1,5", "2"}));
}

// A spreadsheet computes what begins so, whatever it came from.
TEST(Csv, FormulasAreWrittenAsTextAndReadBack) {
  for (const std::string field : {"=1+1", "+x", "-x", "@x", "\tx", "\rx", "'=x", "''=x"}) {
    const std::string written = csv_field(field);
    EXPECT_TRUE(written.starts_with("'") || written.starts_with("\"'")) << written;
    const auto rows = parse_csv(written + ",b\n", "x.csv");
    EXPECT_EQ(csv_text(rows[0].fields[0]), field);
  }
  for (const std::string field : {"x=1", "'x", "", "'", "a,b", "7"}) {
    EXPECT_FALSE(csv_field(field).starts_with("''")) << field;
    EXPECT_EQ(csv_text(parse_csv(csv_field(field) + ",b\n", "x.csv")[0].fields[0]), field);
  }
  EXPECT_EQ(csv_field("=\"a\""), "\"'=\"\"a\"\"\"");
}

TEST(Csv, NumbersAreWrittenAsNumbers) {
  for (const std::string number : {"-1", "+1", "-.5e3", "+2.5e-3"}) {
    EXPECT_EQ(csv_field(number), number);
    EXPECT_EQ(csv_text(number), number);
    EXPECT_EQ(csv_text("'" + number), number) << "as older versions wrote it";
    EXPECT_EQ(csv_text(csv_field("'" + number)), "'" + number);
  }
  for (const std::string text : {"-", "-1-1", "+-1", "-inf", "=1", "-0x10"}) {
    EXPECT_EQ(csv_field(text), "'" + text);
  }
}

TEST(Csv, NamesOfColumns) {
  const CsvRow header{.line = 1, .fields = {"Path", "label", "LABEL", "id", "id"}};
  EXPECT_EQ(named_column(header, "path", "x.csv"), 0u);
  EXPECT_EQ(named_column(header, "label", "x.csv"), 1u);
  EXPECT_EQ(named_column(header, "text", "x.csv"), std::nullopt);
  const auto refused = [&](const char* name) {
    return test::message_of(ErrorKind::data, [&] { named_column(header, name, "x.csv"); });
  };
  EXPECT_EQ(refused("id"), "x.csv:1: columns 4 and 5 are called 'id'. Rename all but one.");
  EXPECT_THAT(refused("Label"),
              testing::HasSubstr("columns 2 and 3 are called 'Label' in another"));
}

TEST(Csv, AStrayCarriageReturnIsNoLineEnd) {
  EXPECT_THAT(error_of("a,b\r\nc,d\re,f\r\n"), testing::StartsWith("x.csv:2: a CR (carriage"));
  EXPECT_THAT(error_of("a,b\r\nc,d\re\r\n"), testing::StartsWith("x.csv:2: a CR (carriage"));
  EXPECT_THAT(error_of("a,b\nc,\"d\"\re,f\n"), testing::StartsWith("x.csv:2: a CR (carriage"));
  EXPECT_EQ(error_of("a,b\r\nc,\"d\r\"\r\n"), "no error");
}

}  // namespace
}  // namespace whisker
