// Terms are parsed once per call. An example is shown only where its sum agrees with what the
// operator computed.
#include "core/trace/local_rule.h"

#include "core/trace/term_numbers.h"

#include <algorithm>

namespace whisker {
namespace {

constexpr size_t shown_terms = 3;

Formula term_of(std::string_view text) {
  return parse_formula({.what = "rule", .text = std::string(text)});
}

// One element of a result or of an operand, as the sum of its terms.
struct Sum {
  std::string text;
  double value = 0, size = 0;  // `size` of the terms without their signs
  size_t terms = 0;

  void add(double term, const std::string& shown) {
    value += term;
    size += std::abs(term);
    if (terms < shown_terms) {
      const char* const pattern = terms == 0 ? "{}" : shown[0] == '-' ? " + ({})" : " + {}";
      text += fmt::format(fmt::runtime(pattern), shown);
    }
    ++terms;
  }
  std::string str(const std::string& name, double recorded) const {
    if (terms == 0) return {};
    const std::string rest =
        terms > shown_terms ? fmt::format(" + ... ({} terms)", terms) : std::string();
    const std::string result = fmt::format("{:.4g}", recorded);
    if (terms == 1 && text == result) return fmt::format("{} = {}", name, result);
    return fmt::format("{} = {}{} = {}", name, text, rest, result);
  }
};

bool agrees(double computed, double recorded, double size, DType dtype) {
  const double tolerance = dtype == DType::f64 ? 1e-9 : dtype == DType::f32 ? 1e-4 : 3e-2;
  return std::abs(computed - recorded) <= tolerance * (size + std::abs(recorded)) + 1e-30;
}

std::string equation(const std::string& left, std::string_view right) {
  return right.empty() ? std::string() : fmt::format("{} = {}", left, right);
}

// The formula of matmul's result (position -1) or of one gradient, whose operands may be read
// transposed.
std::string matmul_rule(const TapeEntry& entry, int position) {
  const std::vector<double> transposed = entry.attribute("transpose");
  const auto is = [&](double operand) {
    return std::find(transposed.begin(), transposed.end(), operand) != transposed.end();
  };
  const char *const a = is(0) ? "a^T" : "a", *const b = is(1) ? "b^T" : "b";
  const char *const a_turned = is(0) ? "a" : "a^T", *const b_turned = is(1) ? "b" : "b^T";
  if (position < 0) return fmt::format("y = {} @ {}", a, b);
  if (position == 0) {
    return is(0) ? fmt::format("da = {} @ dy^T", b) : fmt::format("da = dy @ {}", b_turned);
  }
  return is(1) ? fmt::format("db = dy^T @ {}", a) : fmt::format("db = {} @ dy", a_turned);
}

// How many terms the element of the result has, and how many of them equal it.
std::pair<double, double> counts_at(const Recording& recording, const TapeEntry& entry,
                                    const TermNumbers& numbers, const OpRule& rule,
                                    int64_t element) {
  double count = 0, ties = 0;
  for_each_link(recording, entry, [&](const OpLink& link) {
    if (link.element != element) return;
    ++count;
    ties += numbers.value(rule.operands[0], link) == numbers.value("y", link);
  });
  return {count, ties};
}

size_t largest_of(const std::vector<double>& values) {
  return static_cast<size_t>(
      std::max_element(values.begin(), values.end(),
                       [](double a, double b) { return std::abs(a) < std::abs(b); }) -
      values.begin());
}

}  // namespace

std::string index_in(const Shape& shape, int64_t element) {
  std::string text;
  for (int axis = shape.rank(); axis-- > 0;) {
    text = fmt::format("{}{}{}", element % shape[axis], text.empty() ? "" : ",", text);
    element /= shape[axis];
  }
  return text.empty() ? text : fmt::format("[{}]", text);
}

std::string operand_name(const TapeEntry& entry, size_t position) {
  const OpRule* const rule = find_rule(entry.name);
  if (rule && position < 4 && !rule->operands[position].empty()) {
    return std::string(rule->operands[position]);
  }
  return fmt::format("input {}", position);
}

std::string operator_parts(const TapeEntry& entry) {
  const std::string_view activation = fused_activation(entry);
  std::string text = entry.name;
  if (text == "conv2d_max_pool2d") {
    return fmt::format("conv2d{}{} + max_pool2d", activation.empty() ? "" : " + ", activation);
  }
  if (entry.name != activation && !activation.empty()) text += fmt::format(" + {}", activation);
  return text;
}

std::string forward_rule(const TapeEntry& entry) {
  const OpRule* const rule = find_rule(entry.name);
  if (!rule) return {};
  if (rule->name == "matmul") return matmul_rule(entry, -1);
  const std::string_view activation = fused_activation(entry);
  return activation.empty() ? equation("y", rule->forward)
                            : fmt::format("y = {}({})", activation, rule->forward);
}

std::string backward_rule(const Recording& recording, const TapeEntry& entry, size_t position) {
  const OpRule* const rule = find_rule(entry.name);
  const std::string left = fmt::format("d{}", operand_name(entry, position));
  if (entry.name == "concat") return fmt::format("{} = its part of dy", left);
  if (!rule || position >= 4 || rule->backward[position].empty()) return {};
  if (rule->name == "matmul") return matmul_rule(entry, static_cast<int>(position));
  std::string text = equation(left, rule->backward[position]);
  if (rule->backward[position].find("dz") != std::string_view::npos) {
    const std::string_view dz = through_activation(entry);
    text += dz == "dy" ? ", dz = dy" : fmt::format(", dz = {}", dz);
  }
  const TapeOutput* const operand = operand_at(recording, entry, position);
  if (operand && rule->operands[0] == "a" && !(operand->shape == entry.shape())) {
    text += ", summed over what it was broadcast to";
  }
  return text;
}

std::string forward_example(const Recording& recording, const TapeEntry& entry) {
  const OpRule* const rule = find_rule(entry.name);
  const std::vector<double>& y = entry.outputs[0].value.all;
  if (!rule || rule->forward_term.empty() || y.empty()) return {};
  const auto element = static_cast<int64_t>(largest_of(y));
  TermNumbers numbers(recording, entry, *rule);
  const auto [count, ties] = counts_at(recording, entry, numbers, *rule, element);
  numbers.set_count(count, ties);
  const Formula term = term_of(rule->forward_term), bias = term_of("b");
  Sum sum;
  for_each_link(recording, entry, [&](const OpLink& link) {
    if (link.element != element) return;
    const Formula& one = link.operands[0] < 0 ? bias : term;
    sum.add(numbers.evaluate(one, link), numbers.put_in(one, link, sum.terms > 0 ? 1 : 0));
  });
  const std::string_view activation = fused_activation(entry);
  const double recorded = y[static_cast<size_t>(element)];
  const std::string name = fmt::format("y{}", index_in(entry.shape(), element));
  if (!activation.empty()) {
    sum.text = fmt::format("{}({}", activation, sum.text);
    if (sum.terms <= shown_terms) sum.text += ')';
    std::string text = sum.str(name, recorded);
    if (sum.terms > shown_terms) text.insert(text.find(" terms)") + 7, 1, ')');
    return text;
  }
  return agrees(sum.value, recorded, sum.size, entry.dtype()) ? sum.str(name, recorded)
                                                              : std::string();
}

std::string backward_example(const Recording& recording, const TapeEntry& entry, size_t position) {
  const OpRule* const rule = find_rule(entry.name);
  const TapeOutput* const operand = operand_at(recording, entry, position);
  if (!rule || !operand) return {};
  const bool concat = entry.name == "concat";
  std::string_view text = concat ? "dy" : position < 4 ? rule->backward_term[position] : "";
  if (text.empty() && position < 4 && !rule->forward_term.empty()) text = rule->backward[position];
  const GivenGradient* given = nullptr;
  size_t uses = 0;  // of the operand's tensor by this operator
  for (const TapeInput& input : entry.inputs) {
    if (&recording.entries[input.entry].outputs[input.output] == operand) ++uses;
  }
  for (const GivenGradient& one : entry.given) {
    const TapeInput& input = entry.inputs[one.input];
    if (&recording.entries[input.entry].outputs[input.output] == operand) given = &one;
  }
  if (text.empty() || !given || given->sum.all.empty()) return {};
  TermNumbers numbers(recording, entry, *rule);
  const Formula term = term_of(text);
  const auto element_of = [&](const OpLink& link) {
    const size_t slot = position - link.first_position;  // wraps round where it is before
    return slot < 4 ? link.operands[slot] : -1;
  };
  // The largest gradient of those that this operator gave.
  int64_t element = -1;
  const auto size_at = [&](int64_t i) { return std::abs(given->sum.all[static_cast<size_t>(i)]); };
  for_each_link(recording, entry, [&](const OpLink& link) {
    const int64_t i = element_of(link);
    if (i < 0 || i >= static_cast<int64_t>(given->sum.all.size())) return;
    if (element < 0 || size_at(i) > size_at(element)) element = i;
  });
  if (element < 0) return {};
  std::vector<OpLink> links;
  for_each_link(recording, entry, [&](const OpLink& link) {
    if (element_of(link) == element) links.push_back(link);
  });
  const bool counted =
      term_of(text).kind == FormulaKind::binary &&
      (text.find(" n") != std::string_view::npos || text.find("ties") != std::string_view::npos);
  Sum sum;
  for (const OpLink& link : links) {
    if (counted) {
      const auto [count, ties] = counts_at(recording, entry, numbers, *rule, link.element);
      numbers.set_count(count, ties);
    }
    sum.add(numbers.evaluate(term, link), numbers.put_in(term, link, sum.terms > 0 ? 1 : 0));
  }
  const double recorded = given->sum.all[static_cast<size_t>(element)];
  const bool alone = given->first && uses == 1;
  if (alone ? !agrees(sum.value, recorded, sum.size, operand->dtype) : std::isnan(sum.value)) {
    return {};
  }
  return sum.str(
      fmt::format("d{}{}", operand_name(entry, position), index_in(operand->shape, element)),
      alone ? recorded : sum.value);
}

}  // namespace whisker
