// Terms are parsed once per call. An example is shown only where its
// sum agrees with what the operator computed.
#include "core/trace/local_example.h"

#include "core/trace/local_rule.h"
#include "core/trace/rule_table.h"
#include "core/trace/term_numbers.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace whisker {
namespace {

constexpr auto most_visited = static_cast<int64_t>(most_example_terms) + 1;

Formula term_of(std::string_view text) {
  return parse_formula({.what = "rule", .text = std::string(text)});
}

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
  for_each_link_of(recording, entry, 0, element, [&](const OpLink& link) {
    ++count;
    ties += numbers.value(rule.operands[0], link) == numbers.value("y", link);
  });
  return {count, ties};
}

std::string shown_element(const std::string& name, const TapeOutput& tensor, int64_t element) {
  return name + index_in(tensor.shape, element);
}

// Where an operator that only moves elements takes the link's from: a position among its operands.
size_t moved_from(const TapeEntry& entry, const TermNumbers& numbers, const OpLink& link) {
  if (entry.name == "where") return numbers.value("saved", link) != 0 ? 0 : 1;
  return link.first_position;
}

// The terms of one element of a result.
void add_forward(const Recording& recording, const TapeEntry& entry, const Element& at,
                 TermSum& sum) {
  const OpRule* const rule = find_rule(entry.name);
  if (!rule || rule->forward_term.empty()) return;
  TermNumbers numbers(recording, entry, *rule);
  if (rule->forward_term.find(" n") != std::string_view::npos) {
    const auto [count, ties] = counts_at(recording, entry, numbers, *rule, at.index);
    numbers.set_count(count, ties);
  }
  const bool residual = rule->operands[3] == "residual" && operand_at(recording, entry, 3);
  const Formula term =
                    term_of(fmt::format("{}{}", rule->forward_term, residual ? " + residual" : "")),
                bias = term_of("b");
  const bool moves = moves_elements(*rule), chooses = rule->name == "max" || rule->name == "min";
  const bool skips = chooses || rule->name == "cross_entropy";  // most of its terms
  const double y = entry.outputs[at.output].value.at(at.index);
  for_each_link_of(
      recording, entry, at.output, at.index,
      [&](const OpLink& link) {
        if (moves) {
          const size_t position = moved_from(entry, numbers, link);
          const TapeOutput* const from = operand_at(recording, entry, position);
          const int64_t i = link.operand(position);
          if (from && i >= 0 && i < from->shape.count() && from->value.readable()) {
            sum.add(from->value.at(i), shown_element(operand_name(entry, position), *from, i));
          }
          return;
        }
        if (sum.is_full()) {
          ++sum.terms;
          return;
        }
        const Formula& one = link.operands[0] < 0 ? bias : term;
        const double value = numbers.evaluate(one, link);
        if (chooses && (value != y || sum.terms > 0)) return;
        if (value == 0 && rule->name == "cross_entropy")
          return;  // of another class than the target
        sum.add(value, sum.terms < TermSum::shown_terms
                           ? numbers.put_in(one, link, sum.terms > 0 ? 1 : 0)
                           : std::string());
      },
      skips ? all_links : most_visited);
  sum.activation = fused_activation(entry);
  if (!sum.activation.empty() && sum.activation != entry.name) {
    sum.value = activated(entry, sum.value);
  } else {
    sum.activation.clear();
  }
}

// The terms of what an operator gives to the gradient of one element of its operand.
void add_backward(const Recording& recording, const TapeEntry& entry, size_t position,
                  int64_t element, TermSum& sum) {
  const OpRule* const rule = find_rule(entry.name);
  const std::string text = rule ? gradient_rule(entry, *rule, position).term : std::string();
  if (text.empty()) return;
  TermNumbers numbers(recording, entry, *rule);
  const Formula term = term_of(text);
  const bool counted =
      text.find(" n") != std::string::npos || text.find("ties") != std::string::npos;
  std::vector<OpLink> links;
  for_each_link_from(
      recording, entry, position, element, [&](const OpLink& link) { links.push_back(link); },
      most_visited);
  if (links.size() > most_example_terms) {  // is not shown
    sum.terms += links.size();
    return;
  }
  for (const OpLink& link : links) {
    if (counted) {
      const auto [count, ties] = counts_at(recording, entry, numbers, *rule, link.element);
      numbers.set_count(count, ties);
    }
    std::string shown;
    if (text == "dy" && links.size() == 1) {
      const TapeOutput& output = entry.outputs[link.output];
      const std::string dy = entry.outputs.size() == 1 ? "dy" : fmt::format("dy{}", link.output);
      shown = shown_element(dy, output, link.element);
    } else if (sum.terms < TermSum::shown_terms) {
      shown = numbers.put_in(term, link, sum.terms > 0 ? 1 : 0);
    }
    sum.add(numbers.evaluate(term, link), shown);
  }
}

// The terms of the gradient of an element inside of a fused operator, from all that read it, behind
// operators that only move it.
void add_arrived(const UnfusedOperator& unfused, const Element& at, TermSum& sum) {
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
        for_each_link_from(inside, entry, input.position, at.index, [&](const OpLink& link) {
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
    for_each_link_of(inside, entry, at.output, at.index, [&](const OpLink& link) {
      const size_t position = moved_from(entry, numbers, link);
      for (const TapeInput& input : entry.inputs) {
        if (input.position == position) from = {input.entry, input.output, link.operand(position)};
      }
    });
    if (!from) break;
    at = *from;
  }
  return at;
}

// The largest of the values that are `linked`.
std::optional<int64_t> largest_of(const std::vector<double>& values,
                                  const std::vector<bool>& linked) {
  std::optional<size_t> largest;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!linked[i]) continue;
    if (!largest || std::abs(values[i]) > std::abs(values[*largest])) largest = i;
  }
  return largest;
}

}  // namespace

std::vector<int64_t> by_size(const std::vector<double>& values) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](int64_t i) {
    const double size = std::abs(values[static_cast<size_t>(i)]);
    return std::isnan(size) ? -1 : size;
  });
  return order;
}

void TermSum::add(double term, const std::string& shown) {
  value += term;
  size += std::abs(term);
  if (terms < shown_terms) {
    const char* const pattern = terms == 0 ? "{}" : shown[0] == '-' ? " + ({})" : " + {}";
    text += fmt::format(fmt::runtime(pattern), shown);
  }
  ++terms;
}

std::string TermSum::str(const std::string& name, double recorded) const {
  std::string sum = text;
  if (terms > shown_terms) sum += fmt::format(" + ... ({} terms)", terms);
  if (!activation.empty()) sum = fmt::format("{}({})", activation, sum);
  const std::string result = fmt::format("{:.4g}", recorded);
  if (sum == result) return fmt::format("{} = {}", name, result);
  return fmt::format("{} = {} = {}", name, sum, result);
}

bool TermSum::agrees(double recorded, DType dtype) const {
  const bool same = value == recorded || (std::isnan(value) && std::isnan(recorded));
  return terms > 0 && (same || std::abs(value - recorded) <=
                                   relative_tolerance(dtype) * (size + std::abs(recorded)) + 1e-30);
}

LocalExamples::LocalExamples(const Recording& recording, const TapeEntry& entry)
    : recording_(recording), entry_(entry), unfused_(unfused_operator(recording, entry)) {}

TermSum LocalExamples::forward(int64_t element) const {
  TermSum sum;
  if (unfused_) {
    const TapeInput& result = unfused_->results[0];
    const Element at = computed_at(unfused_->inside, {result.entry, result.output, element});
    add_forward(unfused_->inside, unfused_->inside.entries[at.entry], at, sum);
  } else {
    add_forward(recording_, entry_, {.index = element}, sum);
  }
  return sum;
}

TermSum LocalExamples::backward(size_t position, int64_t element) const {
  TermSum sum;
  if (unfused_) {
    add_arrived(*unfused_, {unfused_->operands[position], 0, element}, sum);
  } else {
    add_backward(recording_, entry_, position, element, sum);
  }
  return sum;
}

int64_t LocalExamples::normalized_with(int64_t element) const {
  const OpRule* const rule = find_rule(entry_.name);
  return rule ? TermNumbers(recording_, entry_, *rule).norm_group(element).size : 0;
}

std::string forward_example(const Recording& recording, const TapeEntry& entry) {
  if (!entry.example.empty()) return entry.example;
  if (!has_small_tensors(recording, entry)) return {};
  const TapeOutput& y = entry.outputs[0];
  const LocalExamples examples(recording, entry);
  std::vector<bool> linked(y.value.all.size(), examples.is_unfused());  // a border has no terms
  if (!examples.is_unfused()) {
    for_each_link(recording, entry, [&](const OpLink& link) {
      const auto i = static_cast<size_t>(link.element);
      if (link.output == 0 && i < linked.size()) linked[i] = true;
    });
  }
  const std::optional<int64_t> element = largest_of(y.value.all, linked);
  if (!element) return {};
  const TermSum sum = examples.forward(*element);
  const double recorded = y.value.at(*element);
  return sum.agrees(recorded, y.dtype) ? sum.str(shown_element("y", y, *element), recorded)
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
  for (const TapeInput& input : entry.inputs) {
    if (input.position == position && !input.example.empty()) return input.example;
    uses += is_operand(input);
  }
  for (const GivenGradient& one : entry.given) {
    if (is_operand(entry.inputs[one.input])) given = &one;
  }
  if (!given || !has_small_tensors(recording, entry)) return {};
  // The largest gradient of those that this operator gave.
  const LocalExamples examples(recording, entry);
  std::vector<bool> linked(given->sum.all.size(), examples.is_unfused());
  if (!examples.is_unfused()) {
    for_each_link(recording, entry, [&](const OpLink& link) {
      const auto i = static_cast<size_t>(link.operand(position));  // of -1 beyond the end
      if (i < linked.size()) linked[i] = true;
    });
  }
  const std::optional<int64_t> element = largest_of(given->sum.all, linked);
  if (!element) return {};
  const TermSum sum = examples.backward(position, *element);
  const double recorded = given->sum.at(*element);
  const bool alone = given->first && uses == 1;
  if (alone ? !sum.agrees(recorded, operand->dtype) : std::isnan(sum.value)) return {};
  return sum.str(
      shown_element(fmt::format("d{}", operand_name(entry, position)), *operand, *element),
      alone ? recorded : sum.value);
}

}  // namespace whisker
