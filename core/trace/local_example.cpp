// One element with its numbers. Terms are parsed once per call. An example is shown only where its
// sum agrees with what the operator computed.
#include "core/trace/local_rule.h"
#include "core/trace/rule_table.h"
#include "core/trace/term_numbers.h"
#include "core/trace/unfused_operator.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace whisker {
namespace {

constexpr size_t shown_terms = 3;

Formula term_of(std::string_view text) {
  return parse_formula({.what = "rule", .text = std::string(text)});
}

// One element of a result or of an operand, as the sum of its terms.
struct Sum {
  std::string text, activation;  // through which the sum goes
  double value = 0, size = 0;    // `size` of the terms without their signs
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
    std::string sum = text;
    if (terms > shown_terms) sum += fmt::format(" + ... ({} terms)", terms);
    if (!activation.empty()) sum = fmt::format("{}({})", activation, sum);
    const std::string result = fmt::format("{:.4g}", recorded);
    if (sum == result) return fmt::format("{} = {}", name, result);
    return fmt::format("{} = {} = {}", name, sum, result);
  }
  bool agrees(double recorded, DType dtype) const {
    return terms > 0 && std::abs(value - recorded) <=
                            relative_tolerance(dtype) * (size + std::abs(recorded)) + 1e-30;
  }
};

// An element of what an operator gave.
struct Element {
  size_t entry = 0, output = 0;
  int64_t index = 0;
};

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

// The largest of the values that are `linked`.
std::optional<size_t> largest_of(const std::vector<double>& values,
                                 const std::vector<bool>& linked) {
  std::optional<size_t> largest;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!linked[i]) continue;
    if (!largest || std::abs(values[i]) > std::abs(values[*largest])) largest = i;
  }
  return largest;
}

std::string shown_element(const std::string& name, const TapeOutput& tensor, int64_t element) {
  return name + index_in(tensor.shape, element);
}

// Where an operator that only moves elements takes the link's from: a position among its operands.
size_t moved_from(const TapeEntry& entry, const TermNumbers& numbers, const OpLink& link) {
  if (entry.name == "where") return numbers.value("saved", link) != 0 ? 0 : 1;
  return link.first_position;
}
int64_t element_at(const OpLink& link, size_t position) {
  const size_t slot = position - link.first_position;  // wraps round where it is before
  return slot < link.operands.size() ? link.operands[slot] : -1;
}

// The terms of one element of a result.
void add_forward(const Recording& recording, const TapeEntry& entry, const Element& at, Sum& sum) {
  const OpRule* const rule = find_rule(entry.name);
  if (!rule || rule->forward_term.empty()) return;
  TermNumbers numbers(recording, entry, *rule);
  const auto [count, ties] = counts_at(recording, entry, numbers, *rule, at.index);
  numbers.set_count(count, ties);
  const bool residual = rule->operands[3] == "residual" && operand_at(recording, entry, 3);
  const Formula term =
                    term_of(fmt::format("{}{}", rule->forward_term, residual ? " + residual" : "")),
                bias = term_of("b");
  const bool moves = moves_elements(*rule), chooses = rule->name == "max" || rule->name == "min";
  const double y = entry.outputs[at.output].value.all[static_cast<size_t>(at.index)];
  for_each_link(recording, entry, [&](const OpLink& link) {
    if (link.element != at.index || link.output != at.output) return;
    if (moves) {
      const size_t position = moved_from(entry, numbers, link);
      const TapeOutput* const from = operand_at(recording, entry, position);
      const int64_t i = element_at(link, position);
      if (from && i >= 0 && i < std::ssize(from->value.all)) {
        sum.add(from->value.all[static_cast<size_t>(i)],
                shown_element(operand_name(entry, position), *from, i));
      }
      return;
    }
    const Formula& one = link.operands[0] < 0 ? bias : term;
    const double value = numbers.evaluate(one, link);
    if (chooses && (value != y || sum.terms > 0)) return;
    if (value == 0 && rule->name == "cross_entropy") return;  // of another class than the target
    sum.add(value, numbers.put_in(one, link, sum.terms > 0 ? 1 : 0));
  });
  sum.activation = fused_activation(entry);
  if (!sum.activation.empty() && sum.activation != entry.name) {
    sum.value = activated(entry, sum.value);
  } else {
    sum.activation.clear();
  }
}

// The terms of what an operator gives to the gradient of one element of its operand.
void add_backward(const Recording& recording, const TapeEntry& entry, size_t position,
                  int64_t element, Sum& sum) {
  const OpRule* const rule = find_rule(entry.name);
  const std::string text = rule ? gradient_rule(entry, *rule, position).term : std::string();
  if (text.empty()) return;
  TermNumbers numbers(recording, entry, *rule);
  const Formula term = term_of(text);
  const bool counted =
      text.find(" n") != std::string::npos || text.find("ties") != std::string::npos;
  std::vector<OpLink> links;
  for_each_link(recording, entry, [&](const OpLink& link) {
    if (element_at(link, position) == element) links.push_back(link);
  });
  for (const OpLink& link : links) {
    if (counted) {
      const auto [count, ties] = counts_at(recording, entry, numbers, *rule, link.element);
      numbers.set_count(count, ties);
    }
    const bool alone = text == "dy" && links.size() == 1;
    const TapeOutput& output = entry.outputs[link.output];
    const std::string dy = entry.outputs.size() == 1 ? "dy" : fmt::format("dy{}", link.output);
    sum.add(numbers.evaluate(term, link), alone
                                              ? shown_element(dy, output, link.element)
                                              : numbers.put_in(term, link, sum.terms > 0 ? 1 : 0));
  }
}

// The terms of the gradient of an element inside of a fused operator, from all that read it, behind
// operators that only move it.
void add_arrived(const UnfusedOperator& unfused, const Element& at, Sum& sum) {
  const Recording& inside = unfused.inside;
  for (size_t user = at.entry + 1; user < inside.entries.size(); ++user) {
    const TapeEntry& entry = inside.entries[user];
    const OpRule* const rule = find_rule(entry.name);
    for (const TapeInput& input : entry.inputs) {
      if (input.entry != at.entry || input.output != at.output || !rule) continue;
      if (const RecordedValues* const dy = unfused.arrives_at(user)) {
        const double value = dy->all[static_cast<size_t>(at.index)];
        if (value != 0) sum.add(value, fmt::format("{:.4g}", value));
      } else if (moves_elements(*rule)) {
        const TermNumbers numbers(inside, entry, *rule);
        for_each_link(inside, entry, [&](const OpLink& link) {
          if (element_at(link, input.position) != at.index) return;
          if (entry.name == "where" && moved_from(entry, numbers, link) != input.position) return;
          add_arrived(unfused, {user, link.output, link.element}, sum);
        });
      } else {
        add_backward(inside, entry, input.position, at.index, sum);
      }
    }
  }
}

// The operator inside of a fused one that computes the element, behind those that only move it.
Element computed_at(const Recording& inside, Element at) {
  while (inside.entries[at.entry].kind == TapeKind::op) {
    const TapeEntry& entry = inside.entries[at.entry];
    const OpRule* const rule = find_rule(entry.name);
    if (!rule || !moves_elements(*rule)) break;
    const TermNumbers numbers(inside, entry, *rule);
    std::optional<Element> from;
    for_each_link(inside, entry, [&](const OpLink& link) {
      if (link.element != at.index || link.output != at.output) return;
      const size_t position = moved_from(entry, numbers, link);
      for (const TapeInput& input : entry.inputs) {
        if (input.position == position)
          from = {input.entry, input.output, element_at(link, position)};
      }
    });
    if (!from) break;
    at = *from;
  }
  return at;
}

}  // namespace

std::string forward_example(const Recording& recording, const TapeEntry& entry) {
  const TapeOutput& y = entry.outputs[0];
  const auto unfused = unfused_operator(recording, entry);
  std::vector<bool> linked(y.value.all.size(), unfused.has_value());  // a border has no terms
  if (!unfused) {
    for_each_link(recording, entry, [&](const OpLink& link) {
      const auto i = static_cast<size_t>(link.element);
      if (link.output == 0 && i < linked.size()) linked[i] = true;
    });
  }
  const std::optional<size_t> largest = largest_of(y.value.all, linked);
  if (!largest) return {};
  const auto element = static_cast<int64_t>(*largest);
  Sum sum;
  if (unfused) {
    const TapeInput& result = unfused->results[0];
    const Element at = computed_at(unfused->inside, {result.entry, result.output, element});
    add_forward(unfused->inside, unfused->inside.entries[at.entry], at, sum);
  } else {
    add_forward(recording, entry, {.index = element}, sum);
  }
  const double recorded = y.value.all[*largest];
  return sum.agrees(recorded, y.dtype) ? sum.str(shown_element("y", y, element), recorded)
                                       : std::string();
}

std::string backward_example(const Recording& recording, const TapeEntry& entry, size_t position) {
  const TapeOutput* const operand = operand_at(recording, entry, position);
  if (!operand) return {};
  const GivenGradient* given = nullptr;
  size_t uses = 0;  // of the operand's tensor by this operator
  const auto is_operand = [&](const TapeInput& input) {
    return &recording.entries[input.entry].outputs[input.output] == operand;
  };
  for (const TapeInput& input : entry.inputs) uses += is_operand(input);
  for (const GivenGradient& one : entry.given) {
    if (is_operand(entry.inputs[one.input])) given = &one;
  }
  if (!given || given->sum.all.empty()) return {};
  const std::vector<double>& sums = given->sum.all;
  // The largest gradient of those that this operator gave.
  const auto unfused = unfused_operator(recording, entry);
  std::vector<bool> linked(sums.size(), unfused.has_value());
  if (!unfused) {
    for_each_link(recording, entry, [&](const OpLink& link) {
      const auto i = static_cast<size_t>(element_at(link, position));  // of -1 beyond the end
      if (i < linked.size()) linked[i] = true;
    });
  }
  const std::optional<size_t> largest = largest_of(sums, linked);
  if (!largest) return {};
  const auto element = static_cast<int64_t>(*largest);
  Sum sum;
  if (unfused) {
    add_arrived(*unfused, {unfused->operands[position], 0, element}, sum);
  } else {
    add_backward(recording, entry, position, element, sum);
  }
  const bool alone = given->first && uses == 1;
  if (alone ? !sum.agrees(sums[*largest], operand->dtype) : std::isnan(sum.value)) return {};
  return sum.str(
      shown_element(fmt::format("d{}", operand_name(entry, position)), *operand, element),
      alone ? sums[*largest] : sum.value);
}

}  // namespace whisker
