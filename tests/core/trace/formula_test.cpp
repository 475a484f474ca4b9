// The grammar, and errors that name the place.
#include "core/trace/formula.h"

#include "tests/support/error_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::HasSubstr;

// "(a + (b * c))"
std::string bracketed(const Formula& f) {
  std::string parts;
  for (const Formula& part : f.parts) parts += (parts.empty() ? "" : ", ") + bracketed(part);
  switch (f.kind) {
    case FormulaKind::binary:
      return "(" + bracketed(f.parts[0]) + " " + f.text + " " + bracketed(f.parts[1]) + ")";
    case FormulaKind::negative:
      return "(-" + parts + ")";
    case FormulaKind::list:
      return "[" + parts + "]";
    case FormulaKind::call:
      return f.text + "(" + parts + ")";
    case FormulaKind::option:
      return f.text + "=" + parts;
    default:
      return f.text;
  }
}

std::string parsed(const std::string& text) {
  return bracketed(parse_formula({.what = "test", .text = text}));
}

std::string program_error(const std::string& text) {
  return test::message_of(ErrorKind::usage,
                          [&] { parse_program({.what = "study -e", .text = text}); });
}

TEST(Formula, BindsAsPythonDoes) {
  EXPECT_EQ(parsed("a + b*c - d"), "((a + (b * c)) - d)");
  EXPECT_EQ(parsed("-x^2 @ w"), "((-(x ^ 2)) @ w)");
  EXPECT_EQ(parsed("2^-3^2"), "(2 ^ (-(3 ^ 2)))");
  EXPECT_EQ(parsed("(a + b) / 2e-3 <= c"), "(((a + b) / 2e-3) <= c)");
  EXPECT_EQ(parsed(" f( x , k = [1, [2,.5]], g() ) "), "f(x, k=[1, [2, .5]], g())");
}

TEST(Formula, AProgramEndsWithTheLoss) {
  const auto program = parse_program({.what = "test", .text = "h = x @ w; mean(h == 1)"});
  ASSERT_EQ(program.size(), 2u);
  EXPECT_EQ(program[0].name, "h");
  EXPECT_EQ(bracketed(program[1].value), "mean((h == 1))");
}

TEST(Formula, ErrorsNameThePlace) {
  EXPECT_EQ(program_error("mean(x @ )"),
            "study -e: column 10: expected a number, a name or a bracket, got ')'.\n"
            "  mean(x @ )\n"
            "           ^");
  EXPECT_THAT(program_error("mean(x"), HasSubstr("column 7: expected ')', got the end."));
  EXPECT_THAT(program_error("a $ b"),
              HasSubstr("column 3: expected an operator or the end, got '$'."));
  EXPECT_THAT(program_error("x; y"), HasSubstr("expected 'name = formula' before a semicolon"));
  EXPECT_THAT(program_error("h = x"), HasSubstr("the loss"));
  EXPECT_THAT(program_error("h = x;"), HasSubstr("the loss"));
  EXPECT_THAT(program_error("1e999"), HasSubstr("within the range of f64, got '1e999'."));
  EXPECT_THAT(program_error("2x"), HasSubstr("expected an operator after a number"));
  EXPECT_THAT(program_error(std::string(5000, '(')), HasSubstr("at most 100 nested brackets"));
  EXPECT_THAT(program_error(std::string(5000, '-')), HasSubstr("at most 100 nested signs"));
  std::string sum = "x";
  for (int i = 0; i < 1000; ++i) sum += "+x";
  EXPECT_EQ(parse_program({.what = "test", .text = sum}).size(), 1u);
  for (const std::string& longer : {sum + "+x", sum + "*x", sum + "<x", "h = " + sum + "; h^2"}) {
    EXPECT_THAT(program_error(longer), HasSubstr("expected at most 1,000 operators."));
  }
  EXPECT_THAT(program_error(""), HasSubstr("column 1: expected a number"));
}

}  // namespace
}  // namespace whisker
