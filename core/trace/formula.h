// Formulas as text: the expressions of `whisker study -e`, and the local rules of operators. Parsed
// by recursive descent into a tree that its users walk.
//
//   program   NAME = sum ; ... ; sum
//   sum       product (+ - product)*, above it < <= > >= == !=
//   product   sign (* / @ sign)*
//   sign      - sign, or atom (^ sign)
//   atom      NUMBER, NAME, NAME(sum, NAME=sum, ...), (sum), [sum, ...]
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

enum class FormulaKind : uint8_t { number, name, call, option, list, negative, binary };

struct Formula {
  FormulaKind kind = FormulaKind::number;
  std::string text = {};  ///< name, called function, option's name, or operator
  double number = 0;
  std::vector<Formula> parts = {};  ///< operands, arguments, or items
  size_t at = 0;                    ///< where it begins in the text, in bytes
};

/// `name = value`; the last of a program has no name.
struct Statement {
  std::string name;
  Formula value;
};

/// A formula's text and what to call it in errors ("study -e", "study -e: w").
struct FormulaSource {
  std::string what;
  std::string text;

  /// Throws usage: "WHAT: column N: MESSAGE", the text below, and a mark below that.
  [[noreturn]] void refuse(size_t at, const std::string& message) const;
};

/// Throws usage as FormulaSource::refuse().
std::vector<Statement> parse_program(const FormulaSource& source);
Formula parse_formula(const FormulaSource& source);

}  // namespace whisker
