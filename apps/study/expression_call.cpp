// The arguments of a call in an expression, and nested lists as tensors.
#include "apps/study/expression_functions.h"
#include "core/io/text.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/ranges.h>

namespace whisker {

Tensor tensor_of(const ExpressionValue& value, TensorOptions options,
                 const std::function<void(const std::string&)>& refuse) {
  if (const auto* tensor = std::get_if<Tensor>(&value)) return *tensor;
  std::vector<int64_t> extents;
  std::vector<double> numbers;
  const std::function<void(const ExpressionValue&, size_t)> collect =
      [&](const ExpressionValue& one, size_t depth) {
        if (const auto* number = std::get_if<double>(&one)) {
          if (depth != extents.size()) refuse("expected rows of equal length");
          numbers.push_back(*number);
          return;
        }
        const auto* list = std::get_if<ExpressionList>(&one);
        if (!list) refuse("expected numbers in the list");
        const auto extent = static_cast<int64_t>(list->size());
        if (depth == extents.size() && numbers.empty()) {
          if (depth == size_t{Shape::max_rank}) refuse("expected at most 8 nested lists");
          extents.push_back(extent);
        } else if (depth >= extents.size() || extents[depth] != extent) {
          refuse("expected rows of equal length");
        }
        for (const ExpressionValue& inner : *list) collect(inner, depth + 1);
      };
  collect(value, 0);
  if (numbers.empty()) refuse("expected at least one number");
  return from_vector(numbers, Shape(std::span<const int64_t>(extents)), options);
}

const ExpressionValue& ExpressionCall::take(const char* name) {
  asked_.emplace_back(name);
  for (Argument& one : values_) {
    if (!one.used && one.name == name) {
      one.used = true;
      return one.value;
    }
  }
  for (Argument& one : values_) {
    if (!one.used && one.name.empty()) {
      one.used = true;
      return one.value;
    }
  }
  refuse(fmt::format("{} needs {}", call_.text, name));
}

bool ExpressionCall::has(const char* name) {
  asked_.emplace_back(name);
  return std::any_of(values_.begin(), values_.end(), [&](const Argument& one) {
    return !one.used && (one.name.empty() || one.name == name);
  });
}

Tensor ExpressionCall::tensor(const char* name) {
  return tensor_of(take(name), options_, [&](const std::string& message) {
    refuse(fmt::format("{}: {}: {}", call_.text, name, message));
  });
}

std::vector<Tensor> ExpressionCall::tensors(const char* name) {
  const auto* list = std::get_if<ExpressionList>(&take(name));
  if (!list) refuse(fmt::format("{}: expected {} in brackets: [a, b]", call_.text, name));
  std::vector<Tensor> result;
  for (const ExpressionValue& one : *list) {
    result.push_back(
        tensor_of(one, options_, [&](const std::string& message) { refuse(message); }));
  }
  return result;
}

double ExpressionCall::number(const char* name) {
  const auto* number = std::get_if<double>(&take(name));
  if (!number) refuse(fmt::format("{}: expected a number for {}", call_.text, name));
  return *number;
}

namespace {

std::optional<int64_t> integer_in(double value, int64_t low, int64_t high) {
  if (!(value >= static_cast<double>(low) && value <= static_cast<double>(high)) ||
      value != std::floor(value)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(value);
}

// In the order of the variant.
std::string kind_of_value(const ExpressionValue& value) {
  constexpr const char* kinds[] = {"a number", "a tensor", "a list", "a text"};
  return kinds[value.index()];
}

}  // namespace

int64_t ExpressionCall::integer(const char* name, int64_t low, int64_t high) {
  const double value = number(name);
  const std::optional<int64_t> result = integer_in(value, low, high);
  if (!result) {
    refuse(fmt::format("{}: expected {} in {} to {}, got {}", call_.text, name, low, high, value));
  }
  return *result;
}

std::vector<int64_t> ExpressionCall::integers(const char* name, int64_t low, int64_t high) {
  const ExpressionValue& value = take(name);
  std::vector<int64_t> result;
  const auto append = [&](const ExpressionValue& one) {
    const auto* number = std::get_if<double>(&one);
    const std::optional<int64_t> integer =
        number ? integer_in(*number, low, high) : std::optional<int64_t>();
    if (!integer) {
      refuse(fmt::format("{}: expected {} as integers in {} to {}, got {}", call_.text, name, low,
                         high, number ? fmt::to_string(*number) : kind_of_value(one)));
    }
    result.push_back(*integer);
  };
  if (const auto* list = std::get_if<ExpressionList>(&value)) {
    for (const ExpressionValue& one : *list) append(one);
  } else {
    append(value);
  }
  return result;
}

// In brackets, or as the arguments themselves: randn(2, 3).
Shape ExpressionCall::shape(const char* name) {
  std::vector<int64_t> extents;
  while (extents.empty() || has(name)) {
    for (const int64_t extent : integers(name, 0, most_expression_elements))
      extents.push_back(extent);
  }
  const Shape shape{std::span<const int64_t>(extents)};
  if (shape.count() > most_expression_elements) {
    refuse(fmt::format("{}: expected at most {} elements, got {}", call_.text,
                       grouped(most_expression_elements), shape));
  }
  return shape;
}

Pair ExpressionCall::pair(const char* name, int64_t low, Pair usual) {
  if (!has(name)) return usual;
  const std::vector<int64_t> values = integers(name, low, 1 << 20);
  if (values.size() == 1) return values[0];
  if (values.size() != 2) {
    refuse(fmt::format("{}: expected one number or two for {}", call_.text, name));
  }
  return {values[0], values[1]};
}

ActivationSpec ExpressionCall::activation(const char* name) {
  if (!has(name)) return {};
  const auto* word = std::get_if<std::string>(&take(name));
  for (int i = 0; word && i < activation_count; ++i) {
    if (name_of(static_cast<Activation>(i)) == *word) return {.kind = static_cast<Activation>(i)};
  }
  refuse(fmt::format("{}: expected an activation's name for {}, as relu", call_.text, name));
}

void ExpressionCall::finish() const {
  for (const Argument& one : values_) {
    if (one.used) continue;
    std::vector<std::string> known;
    for (const std::string& asked : asked_) {
      if (std::ranges::count(known, asked) == 0) known.push_back(asked);
    }
    const std::string takes = fmt::format("; it takes {}", fmt::join(known, ", "));
    refuse(one.name.empty()
               ? fmt::format("{} has too many arguments{}", call_.text, takes)
               : fmt::format("{} has no argument {}{}", call_.text, excerpt(one.name), takes));
  }
}

void ExpressionCall::refuse(const std::string& message) const {
  source_.refuse(call_.at, message);
}

}  // namespace whisker
