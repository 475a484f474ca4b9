// The parser. Depth and length are bounded: texts come from command lines and files. A chain of
// operators is as deep as it is long.
#include "core/trace/formula.h"

#include "core/error.h"
#include "core/io/text.h"

#include <algorithm>
#include <charconv>

namespace whisker {
namespace {

constexpr int deepest = 100;
constexpr size_t longest = 100'000, most_operators = 1'000;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class FormulaParser {
 public:
  explicit FormulaParser(const FormulaSource& source) : source_(source), text_(source.text) {
    if (text_.size() > longest) source_.refuse(longest, "expected at most 100,000 characters");
    skip_blanks();
  }

  std::vector<Statement> program() {
    std::vector<Statement> statements;
    while (true) {
      Statement statement;
      const size_t begin = at_;
      if (is_letter(peek())) {
        const std::string name = word();
        if (peek() == '=' && peek(1) != '=') {
          statement.name = name;
          take("=");
        } else {
          at_ = begin;
        }
      }
      statement.value = sum();
      const bool named = !statement.name.empty();
      statements.push_back(std::move(statement));
      if (!take(";")) {
        if (named) refuse("expected a last formula without a name, the loss,");
        break;
      }
      if (!named) source_.refuse(begin, "expected 'name = formula' before a semicolon");
      if (at_ == text_.size()) refuse("expected a last formula, the loss,");
    }
    if (at_ < text_.size()) refuse("expected an operator or the end");
    return statements;
  }

  Formula formula() {
    Formula result = sum();
    if (at_ < text_.size()) refuse("expected an operator or the end");
    return result;
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) {
      ++at_;
    }
  }

  bool take(std::string_view token) {
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    skip_blanks();
    return true;
  }

  [[noreturn]] void refuse(std::string_view expected) const {
    source_.refuse(at_,
                   fmt::format("{}, got {}", expected,
                               at_ < text_.size() ? excerpt(text_.substr(at_, 1)) : "the end"));
  }

  void expect(std::string_view token) {
    if (!take(token)) refuse(fmt::format("expected '{}'", token));
  }

  std::string word() {
    const size_t begin = at_;
    while (is_letter(peek()) || is_digit(peek())) ++at_;
    std::string result(text_.substr(begin, at_ - begin));
    skip_blanks();
    return result;
  }

  Formula binary(std::string_view sign, size_t at, Formula left, Formula right) {
    if (++operators_ > most_operators) source_.refuse(at, "expected at most 1,000 operators");
    Formula result{.kind = FormulaKind::binary, .text = std::string(sign), .at = at};
    result.parts.push_back(std::move(left));
    result.parts.push_back(std::move(right));
    return result;
  }

  Formula sum() {
    if (++depth_ > deepest) refuse("expected at most 100 nested brackets");
    Formula left = terms();
    for (const std::string_view sign : {"<=", ">=", "==", "!=", "<", ">"}) {
      const size_t at = at_;
      if (take(sign)) {
        left = binary(sign, at, std::move(left), terms());
        break;
      }
    }
    --depth_;
    return left;
  }

  Formula terms() {
    Formula left = product();
    while (peek() == '+' || peek() == '-') {
      const size_t at = at_;
      const std::string sign(1, peek());
      take(sign);
      left = binary(sign, at, std::move(left), product());
    }
    return left;
  }

  Formula product() {
    Formula left = negative();
    while (peek() == '*' || peek() == '/' || peek() == '@') {
      const size_t at = at_;
      const std::string sign(1, peek());
      take(sign);
      left = binary(sign, at, std::move(left), negative());
    }
    return left;
  }

  Formula negative() {
    const size_t at = at_;
    if (take("-")) {
      if (++depth_ > deepest) refuse("expected at most 100 nested signs");
      Formula result{.kind = FormulaKind::negative, .at = at};
      result.parts.push_back(negative());
      --depth_;
      return result;
    }
    Formula base = atom();
    const size_t sign = at_;
    if (!take("^")) return base;
    if (++depth_ > deepest) refuse("expected at most 100 nested powers");
    Formula result = binary("^", sign, std::move(base), negative());
    --depth_;
    return result;
  }

  Formula atom() {
    const size_t at = at_;
    if (take("(")) {
      Formula inner = sum();
      expect(")");
      return inner;
    }
    if (take("[")) {
      Formula list{.kind = FormulaKind::list, .at = at};
      items(list, "]");
      return list;
    }
    if (is_digit(peek()) || (peek() == '.' && is_digit(peek(1)))) return number();
    if (!is_letter(peek())) refuse("expected a number, a name or a bracket");
    Formula result{.kind = FormulaKind::name, .text = word(), .at = at};
    if (take("(")) {
      result.kind = FormulaKind::call;
      items(result, ")");
    }
    return result;
  }

  // Up to the closing bracket; `name=value` only in calls.
  void items(Formula& into, std::string_view end) {
    if (take(end)) return;
    do {
      const size_t begin = at_;
      if (into.kind == FormulaKind::call && is_letter(peek())) {
        Formula option{.kind = FormulaKind::option, .text = word(), .at = begin};
        if (peek() == '=' && peek(1) != '=') {
          take("=");
          option.parts.push_back(sum());
          into.parts.push_back(std::move(option));
          continue;
        }
        at_ = begin;
      }
      into.parts.push_back(sum());
    } while (take(","));
    expect(end);
  }

  Formula number() {
    Formula result{.at = at_};
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), result.number);
    const auto length = static_cast<size_t>(end - text_.data()) - at_;
    result.text = text_.substr(at_, length);
    if (error != std::errc()) {
      source_.refuse(at_, fmt::format("expected a number within the range of f64, got {}",
                                      excerpt(result.text)));
    }
    at_ += length;
    if (is_letter(peek())) refuse("expected an operator after a number");
    skip_blanks();
    return result;
  }

  const FormulaSource& source_;
  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  size_t operators_ = 0;
};

}  // namespace

void FormulaSource::refuse(size_t at, const std::string& message) const {
  // The text around the place, with a mark below it.
  const size_t begin = at > 40 ? at - 40 : 0;
  const std::string shown =
      printable(std::string_view(text).substr(std::min(begin, text.size()), 72));
  const std::string before =
      printable(std::string_view(text).substr(std::min(begin, text.size()), at - begin));
  const std::string lines = fmt::format("\n  {}\n  {:>{}}", shown, "^", before.size() + 1);
  const char last = message.empty() ? '.' : message.back();
  fail(ErrorKind::usage, "{}: column {}: {}{}{}", what, at + 1, message,
       last == '.' || last == '?' ? "" : ".", MessageLines{lines});
}

std::vector<Statement> parse_program(const FormulaSource& source) {
  return FormulaParser(source).program();
}

Formula parse_formula(const FormulaSource& source) {
  return FormulaParser(source).formula();
}

}  // namespace whisker
