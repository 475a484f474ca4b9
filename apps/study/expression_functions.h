// The functions of an expression: the operators of core/ops/ops.h by their own names. Internal to
// apps/study.
#pragma once

#include "core/ops/ops.h"
#include "core/trace/formula.h"

#include <string>
#include <variant>
#include <vector>

namespace whisker {

/// The most elements of a shape.
inline constexpr int64_t most_expression_elements = 1'000'000;

struct ExpressionValue;
using ExpressionList = std::vector<ExpressionValue>;
/// A number, a tensor, a list ("[1, 2]"), or a name that stands for itself (relu).
struct ExpressionValue : std::variant<double, Tensor, ExpressionList, std::string> {
  using variant::variant;
};

/// A call's evaluated arguments. The getters throw usage at the call's place.
class ExpressionCall {
 public:
  ExpressionCall(const FormulaSource& source, const Formula& call, TensorOptions options,
                 uint64_t stream_seed)
      : source_(source), call_(call), options_(options), seed_(stream_seed) {}

  void add(ExpressionValue value) { values_.push_back({"", std::move(value), false}); }
  void add(const std::string& name, ExpressionValue value) {
    values_.push_back({name, std::move(value), false});
  }

  /// The next argument without a name, or the one of this name.
  Tensor tensor(const char* name);
  bool has(const char* name) const;
  std::vector<Tensor> tensors(const char* name);
  double number(const char* name);
  double number(const char* name, double usual) { return has(name) ? number(name) : usual; }
  int64_t integer(const char* name, int64_t low, int64_t high);
  int64_t integer(const char* name, int64_t low, int64_t high, int64_t usual) {
    return has(name) ? integer(name, low, high) : usual;
  }
  /// A list of integers, or one.
  std::vector<int64_t> integers(const char* name, int64_t low, int64_t high);
  Shape shape(const char* name);
  Pair pair(const char* name, int64_t low, Pair usual);
  ActivationSpec activation(const char* name);
  /// Throws usage for arguments that nobody asked for.
  void finish() const;

  TensorOptions options() const { return options_; }
  uint64_t seed() const { return seed_; }
  [[noreturn]] void refuse(const std::string& message) const;

 private:
  struct Argument {
    std::string name;
    ExpressionValue value;
    bool used;
  };
  const ExpressionValue& take(const char* name);

  const FormulaSource& source_;
  const Formula& call_;
  TensorOptions options_;
  uint64_t seed_;
  std::vector<Argument> values_;
};

using ExpressionFunction = Tensor (*)(ExpressionCall&);
/// nullptr when there is none of this name.
ExpressionFunction find_expression_function(std::string_view name);
std::vector<std::string> expression_function_names();

/// Nested lists of numbers, all of one length at each depth, as a tensor; `refuse` reports others.
Tensor tensor_of(const ExpressionValue& value, TensorOptions options,
                 const std::function<void(const std::string&)>& refuse);

}  // namespace whisker
