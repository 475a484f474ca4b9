// Evaluates the tree operator by operator. The tape sees the operators themselves, under their own
// names.
#include "apps/study/expression.h"

#include "apps/study/expression_functions.h"
#include "core/autograd/autograd.h"
#include "core/autograd/observer.h"
#include "core/io/text.h"
#include "core/memory/memory.h"
#include "core/tensor/philox.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/ranges.h>

namespace whisker {
namespace {

using Names = std::map<std::string, ExpressionValue, std::less<>>;

class Evaluator {
 public:
  Evaluator(const FormulaSource& source, const Expression::Options& options, Names names)
      : source_(source), options_(options), names_(std::move(names)) {}

  void define(const std::string& name, ExpressionValue value) { names_[name] = std::move(value); }

  ExpressionValue operator()(const Formula& f) {
    switch (f.kind) {
      case FormulaKind::number:
        return f.number;
      case FormulaKind::name:
        return name(f);
      case FormulaKind::list: {
        ExpressionList list;
        for (const Formula& part : f.parts) list.push_back((*this)(part));
        return list;
      }
      case FormulaKind::negative: {
        const ExpressionValue value = (*this)(f.parts[0]);
        if (const auto* number = std::get_if<double>(&value)) return -*number;
        return at(f, [&] { return -tensor(value, f); });
      }
      case FormulaKind::binary:
        return binary(f);
      case FormulaKind::call:
        return call(f);
      case FormulaKind::option:
        break;
    }
    source_.refuse(f.at, "expected a formula");
  }

  Tensor tensor(const ExpressionValue& value, const Formula& f) const {
    if (const auto* word = std::get_if<std::string>(&value)) unknown_name(f, *word);
    return tensor_of(value, options_.tensor,
                     [&](const std::string& message) { source_.refuse(f.at, message); });
  }

 private:
  // What an operator refuses, with the operator's place and casts as formulas write them.
  template <class Compute>
  ExpressionValue at(const Formula& f, Compute compute) const {
    try {
      return compute();
    } catch (const Error& error) {
      std::string message = error.what();
      if (error.kind() != ErrorKind::usage || message.starts_with(source_.what)) throw;
      for (const DType dtype :
           {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64, DType::boolean}) {
        const std::string cast = fmt::format("with to({})", dtype);
        const size_t found = message.find(cast);
        if (found != std::string::npos) {
          message.replace(found, cast.size(), fmt::format("with {}(x)", dtype));
        }
      }
      source_.refuse(f.at, message);
    }
  }

  ExpressionValue name(const Formula& f) const {
    const auto found = names_.find(f.text);
    if (found != names_.end()) return found->second;
    return f.text;  // the activation of a layer; an error wherever else it goes
  }

  [[noreturn]] void unknown_name(const Formula& f, const std::string& word) const {
    std::vector<std::string> known;
    for (const auto& [name, value] : names_) known.push_back(name);
    const std::string nearest = word.size() > 1 ? nearest_name(word, known) : std::string();
    source_.refuse(f.at, nearest.empty()
                             ? fmt::format("{} has no value: give {}='[[1,2]]'", word, word)
                             : fmt::format("{} has no value; did you mean {}?", word, nearest));
  }

  ExpressionValue binary(const Formula& f) {
    const ExpressionValue left = (*this)(f.parts[0]), right = (*this)(f.parts[1]);
    const auto* a = std::get_if<double>(&left);
    const auto* b = std::get_if<double>(&right);
    const char sign = f.text[0];
    if (a && b) {
      switch (sign) {
        case '+':
          return *a + *b;
        case '-':
          return *a - *b;
        case '*':
          return *a * *b;
        case '/':
          return *a / *b;
        case '^':
          return std::pow(*a, *b);
        default:
          source_.refuse(f.at, fmt::format("'{}' needs a tensor on one side", f.text));
      }
    }
    return at(f, [&]() -> Tensor {
      if (b) {
        const Tensor x = tensor(left, f.parts[0]);
        if (sign == '+') return affine(x, 1, *b);
        if (sign == '-') return affine(x, 1, -*b);
        if (sign == '*') return affine(x, *b, 0);
        if (sign == '/') return affine(x, 1 / *b, 0);
        if (sign == '^') return pow(x, *b);
        return of_two(f, x, full({}, *b, x.options()));
      }
      const Tensor y = tensor(right, f.parts[1]);
      if (a) {
        if (sign == '+') return affine(y, 1, *a);
        if (sign == '-') return affine(y, -1, *a);
        if (sign == '*') return affine(y, *a, 0);
        if (sign == '/') return affine(reciprocal(y), *a, 0);
        return of_two(f, full({}, *a, y.options()), y);
      }
      return of_two(f, tensor(left, f.parts[0]), y);
    });
  }

  Tensor of_two(const Formula& f, const Tensor& a, const Tensor& b) const {
    if (f.text == "+") return add(a, b);
    if (f.text == "-") return sub(a, b);
    if (f.text == "*") return mul(a, b);
    if (f.text == "/") return div(a, b);
    if (f.text == "@") return matmul(a, b);
    if (f.text == "==") return equal(a, b);
    if (f.text == "!=") return not_equal(a, b);
    if (f.text == "<") return less(a, b);
    if (f.text == "<=") return less_equal(a, b);
    if (f.text == ">") return greater(a, b);
    if (f.text == ">=") return greater_equal(a, b);
    source_.refuse(f.at, "'^' needs a number on its right");
  }

  ExpressionValue call(const Formula& f) {
    const ExpressionFunction function = find_expression_function(f.text);
    if (!function) {
      const std::vector<std::string> names = expression_function_names();
      const std::string nearest = nearest_name(f.text, names);
      const std::string known = nearest.empty()
                                    ? fmt::format(": it is none of {}", fmt::join(names, ", "))
                                    : fmt::format("; did you mean '{}'?", nearest);
      source_.refuse(f.at, fmt::format("no operator is called {}{}", excerpt(f.text), known));
    }
    // Each call of randn() in a formula draws other numbers.
    ExpressionCall call(source_, f, options_.tensor, options_.seed + ++calls_);
    for (const Formula& part : f.parts) {
      if (part.kind == FormulaKind::option) {
        call.add(part.text, (*this)(part.parts[0]));
      } else {
        ExpressionValue value = (*this)(part);
        if (const auto* word = std::get_if<std::string>(&value)) unknown_name(part, *word);
        call.add(std::move(value));
      }
    }
    return at(f, [&] {
      const Tensor result = function(call);
      call.finish();
      return result;
    });
  }

  const FormulaSource& source_;
  const Expression::Options& options_;
  Names names_;
  uint64_t calls_ = 0;
};

FormulaSource loss_source(const std::string& formula) {
  return {.what = "study -e", .text = formula};
}

void collect_names(const Formula& f, std::vector<std::string>& names) {
  if (f.kind == FormulaKind::name) names.push_back(f.text);
  for (const Formula& part : f.parts) collect_names(part, names);
}

}  // namespace

Expression::Expression(const std::string& formula, const std::vector<NamedFormula>& bindings,
                       const Options& options)
    : formula_(formula), options_(options) {
  std::vector<std::string> used, named;
  for (const Statement& one : parse_program(loss_source(formula))) {
    collect_names(one.value, used);
    named.push_back(one.name);
  }
  for (const NamedFormula& binding : bindings) named.push_back(binding.name);
  const NoGrad off_tape;
  for (const NamedFormula& binding : bindings) {
    const FormulaSource source{.what = fmt::format("study -e: {}", binding.name),
                               .text = binding.text};
    if (std::find(used.begin(), used.end(), binding.name) == used.end()) {
      const auto without = std::ranges::find_if(used, [&](const std::string& one) {
        return std::ranges::count(named, one) == 0 && !find_expression_function(one);
      });
      fail(ErrorKind::usage, "study -e: {} has a value, but the formula does not use it: {}{}.",
           excerpt(binding.name), excerpt(formula),
           without == used.end() ? "" : fmt::format(", in which {} has none", excerpt(*without)));
    }
    for (const auto& [name, tensor] : tensors_) {
      if (name == binding.name) fail(ErrorKind::usage, "study -e: {} has two values.", name);
    }
    Formula value = parse_formula(source);
    const bool constant = value.kind == FormulaKind::call && value.text == "const";
    if (constant && value.parts.size() != 1) source.refuse(value.at, "const() takes one value");
    if (constant) value = Formula(value.parts[0]);
    Options own = options;
    own.seed = options.seed + stream_of(binding.name);
    Evaluator evaluate(source, own, {});
    const MemoryScope scope(constant ? MemoryCategory::input : MemoryCategory::parameters);
    const Tensor tensor = evaluate.tensor(evaluate(value), value).clone();
    if (!constant && is_floating(tensor.dtype())) {
      tensor.set_requires_grad(binding.name);
      leaves_.push_back(binding.name);
    }
    tensors_.emplace_back(binding.name, tensor);
  }
}

Tensor Expression::loss() const {
  const FormulaSource source = loss_source(formula_);
  const std::vector<Statement> program = parse_program(source);
  Evaluator evaluate(source, options_, Names(tensors_.begin(), tensors_.end()));
  Tensor loss;
  for (const Statement& statement : program) {
    std::optional<TapeScope> part;  // a part's name is its operators' layer
    if (!statement.name.empty()) part.emplace(statement.name);
    ExpressionValue value = evaluate(statement.value);
    if (!statement.name.empty()) {
      evaluate.define(statement.name, std::move(value));
      continue;
    }
    loss = evaluate.tensor(value, statement.value);
    if (loss.count() != 1) {
      source.refuse(statement.value.at,
                    fmt::format("expected a loss of one element, got shape {}: use mean() or sum()",
                                loss.shape()));
    }
    if (grad_mode.enabled && !loss.requires_grad()) {
      source.refuse(statement.value.at,
                    "the loss depends on no tensor that wants a gradient: const() and integers do "
                    "not");
    }
  }
  return loss;
}

void Expression::run(StepObserver& recorder) const {
  for (const auto& [name, tensor] : tensors_) {
    recorder.name(tensor, name);
    tensor.zero_grad();
  }
  backward(loss());
}

std::string Expression::describe() const {
  return fmt::format("{}, {} on {}", printable(formula_), options_.tensor.dtype,
                     options_.tensor.device);
}

NamedFormula binding_of(const std::string& text) {
  const size_t sign = text.find('=');
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
  };
  const std::string name = text.substr(0, sign);
  if (sign == std::string::npos || name.empty() || (name[0] >= '0' && name[0] <= '9') ||
      !std::all_of(name.begin(), name.end(), is_letter)) {
    fail(ErrorKind::usage, "study -e: {}: expected NAME=VALUE, as x='[[1,2]]' or w='randn(2,3)'.",
         excerpt(text));
  }
  return {name, text.substr(sign + 1)};
}

}  // namespace whisker
