// Everything is computed in doubles from the recorded values.
#include "core/trace/term_numbers.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace whisker {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}
double normal_pdf(double x) {
  return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
}

double binary(std::string_view sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "/") return a / b;
  if (sign == "^") return std::pow(a, b);
  if (sign == ">") return a > b;
  if (sign == "<") return a < b;
  if (sign == ">=") return a >= b;
  if (sign == "<=") return a <= b;
  if (sign == "==") return a == b;
  if (sign == "!=") return a != b;
  return unknown;
}

double function(std::string_view name, double x) {
  if (name == "exp") return std::exp(x);
  if (name == "log") return std::log(x);
  if (name == "sqrt") return std::sqrt(x);
  if (name == "tanh") return std::tanh(x);
  if (name == "sigmoid") return 1 / (1 + std::exp(-x));
  if (name == "abs") return std::abs(x);
  if (name == "sign") return x > 0 ? 1 : x < 0 ? -1 : 0;
  if (name == "cdf") return normal_cdf(x);
  if (name == "pdf") return normal_pdf(x);
  return unknown;
}

}  // namespace

double relative_tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-9 : dtype == DType::f32 ? 1e-4 : 3e-2;
}

double activated(const TapeEntry& entry, double z) {
  const OpRule* const rule = find_rule(fused_activation(entry));
  if (!rule) return z;
  Recording recording;
  recording.entries.push_back({.kind = TapeKind::constant, .name = "z"});
  recording.entries[0].outputs = {{.shape = {1}, .dtype = DType::f64, .value = {.all = {z}}}};
  TapeEntry active{.name = std::string(rule->name), .attributes = entry.attributes};
  active.inputs.assign(1, {});
  active.outputs = recording.entries[0].outputs;
  const Formula f = parse_formula({.what = "rule", .text = std::string(rule->forward_term)});
  return TermNumbers(recording, active, *rule).evaluate(f, {.operands = {0, -1, -1, -1}});
}

TermNumbers::TermNumbers(const Recording& recording, const TapeEntry& entry, const OpRule& rule)
    : recording_(recording), entry_(entry), rule_(rule) {
  for (size_t i = 0; i < 4; ++i) operands_[i] = operand_at(recording, entry, i);
  dz_ = parse_formula({.what = "rule", .text = std::string(through_activation(entry))});
  norm_ = rule.name == "batch_norm" || rule.name == "layer_norm" || rule.name == "group_norm";
}

double TermNumbers::value(std::string_view name, const OpLink& link) const {
  for (size_t i = 0; i < 4; ++i) {
    if (rule_.operands[i] != name) continue;
    const TapeOutput* const operand = link.first_position == 0
                                          ? operands_[i]
                                          : operand_at(recording_, entry_, link.first_position + i);
    if (operand) return operand->value.at(link.operands[i]);
  }
  const TapeOutput& output = entry_.outputs[std::min(link.output, entry_.outputs.size() - 1)];
  if (name == "y") return output.value.at(link.element);
  if (name == "dy") return output.gradient.at(link.element);
  if (name == "dz") return evaluate(dz_, link);
  if (name == "n") return count_;
  if (name == "ties") return ties_;
  if (name == "saved") {
    return entry_.saved.empty() ? unknown : entry_.saved[0].value.at(saved_element(link));
  }
  if (name == "s" || name == "total") return row_sum(name, link);
  if (name == "rows" || name == "probability" || name == "target") return loss_value(name, link);
  if (norm_) return norm_value(name, link);
  const std::vector<double> numbers = entry_.attribute(name);
  return numbers.empty() ? unknown : numbers[0];
}

double TermNumbers::evaluate(const Formula& f, const OpLink& link) const {
  const auto part = [&](size_t i) { return evaluate(f.parts[i], link); };
  switch (f.kind) {
    case FormulaKind::number:
      return f.number;
    case FormulaKind::name:
      return value(f.text, link);
    case FormulaKind::negative:
      return -part(0);
    case FormulaKind::binary:
      return binary(f.text, part(0), part(1));
    case FormulaKind::call:
      return f.parts.size() == 2
                 ? (f.text == "max" ? std::max(part(0), part(1)) : std::min(part(0), part(1)))
                 : function(f.text, part(0));
    case FormulaKind::option:
    case FormulaKind::list:
      break;
  }
  return unknown;
}

std::string TermNumbers::put_in(const Formula& f, const OpLink& link, int outer) const {
  const auto bracketed = [&](const std::string& text, int own) {
    return own < outer ? fmt::format("({})", text) : text;
  };
  switch (f.kind) {
    case FormulaKind::name: {
      const double number = value(f.text, link);
      const std::string text = fmt::format("{:.4g}", number);
      return number < 0 && outer > 0 ? fmt::format("({})", text) : text;
    }
    case FormulaKind::negative:
      return bracketed(fmt::format("-{}", put_in(f.parts[0], link, 3)), 3);
    case FormulaKind::binary: {
      const char sign = f.text[0];
      const int own = sign == '+' || sign == '-'   ? 1
                      : sign == '*' || sign == '/' ? 2
                      : sign == '^'                ? 4
                                                   : 0;
      const std::string_view space = sign == '^' ? "" : " ";
      return bracketed(fmt::format("{}{}{}{}{}", put_in(f.parts[0], link, own), space, f.text,
                                   space, put_in(f.parts[1], link, own + 1)),
                       own == 0 ? (outer > 0 ? -1 : 0) : own);
    }
    case FormulaKind::call: {
      std::string text = f.text + "(";
      for (size_t i = 0; i < f.parts.size(); ++i) {
        if (i > 0) text += ", ";
        text += put_in(f.parts[i], link);
      }
      return text + ")";
    }
    default:
      return f.text;
  }
}

// Losses keep one number per logit, where() one per element of the result.
int64_t TermNumbers::saved_element(const OpLink& link) const {
  return rule_.name == "where" ? link.element : link.operands[0];
}

// Over the row that holds the element: of dy * y (softmax) or dy (log_softmax), or of exp(x).
double TermNumbers::row_sum(std::string_view name, const OpLink& link) const {
  const TapeOutput& y = entry_.outputs[0];
  const std::vector<double> axis = entry_.attribute("axis");
  if (axis.empty() || !(axis[0] >= 0 && axis[0] < y.shape.rank()) || !operands_[0]) return unknown;
  const auto along = static_cast<int>(axis[0]);
  const int64_t stride = strides_over(y.shape)[static_cast<size_t>(along)];
  const int64_t extent = y.shape[along];
  const int64_t first = link.element - link.element / stride % extent * stride;
  double sum = 0;
  for (int64_t i = first; i < first + extent * stride; i += stride) {
    const double dy = y.gradient.at(i);
    sum += name == "total"           ? std::exp(operands_[0]->value.at(i))
           : rule_.name == "softmax" ? dy * y.value.at(i)
                                     : dy;
  }
  return sum;
}

// The value of `name` for a logit. What forward kept is the gradient, (probability - target) / rows
// in cross_entropy and (sigmoid(x) - target) / n in the binary one: the target is found from it.
// With class weights the factor of the probability is that of another class than the target.
double TermNumbers::loss_value(std::string_view name, const OpLink& link) const {
  const TapeOutput* const x = operands_[0];
  if (!x || x->shape.rank() == 0 || entry_.saved.empty() || !x->value.readable()) return unknown;
  const RecordedValues& saved = entry_.saved[0].value;
  const int64_t logit = link.operands[0];
  const auto cleared = [&](double target) {  // of rounding
    return std::abs(target) < relative_tolerance(x->dtype) ? 0 : target;
  };
  if (rule_.name == "binary_cross_entropy_with_logits") {
    return cleared(1 / (1 + std::exp(-x->value.at(logit))) - saved.at(logit) * count_);
  }
  const int64_t classes = x->shape[-1], first = logit / classes * classes;
  const auto row_count = static_cast<double>(x->shape.count() / classes);
  if (name == "rows") return row_count;
  const auto [known, is_new] = statistics_.try_emplace(first, 0, 1);
  auto& [total, factor] = known->second;
  const auto exp_at = [&](int64_t i) { return std::exp(x->value.at(i)); };
  for (int64_t i = first; is_new && i < first + classes; ++i) total += exp_at(i);
  if (is_new && entry_.has_attribute("class_weight")) {
    factor = 0;
    for (int64_t i = first; i < first + classes; ++i) {
      factor = std::max(factor, saved.at(i) * row_count * total / exp_at(i));
    }
  }
  const double probability = exp_at(logit) / total;
  if (name == "probability") return probability;
  return cleared(factor * probability - saved.at(logit) * row_count);
}

TermNumbers::NormGroup TermNumbers::norm_group(int64_t element) const {
  const bool over_rows = rule_.name == "layer_norm", batch = rule_.name == "batch_norm";
  const TapeOutput* const x = operands_[0];
  if (!norm_ || !x || x->shape.rank() == 0 || x->shape.count() == 0) return {};
  const int64_t last = x->shape[-1], count = x->shape.count();
  const std::vector<double> groups = entry_.attribute("groups");
  const double parts = over_rows        ? 1
                       : batch          ? static_cast<double>(last)
                       : groups.empty() ? 0
                                        : groups[0];
  if (!(parts >= 1 && parts <= static_cast<double>(last))) return {};
  const int64_t channels = last / static_cast<int64_t>(parts);
  const int64_t block = over_rows ? last : batch ? count : count / x->shape[0];
  return {.first = element / block * block + element % last / channels * channels,
          .channels = channels,
          .size = block / last * channels};
}

double TermNumbers::norm_value(std::string_view name, const OpLink& link) const {
  const TapeOutput* const x = operands_[0];
  const NormGroup group = norm_group(link.element);
  if (group.size == 0) return unknown;
  const int64_t last = x->shape[-1];
  const auto element = [&](int64_t i) {
    return group.first + i / group.channels * last + i % group.channels;
  };
  const auto mean_of = [&](const auto& f) {
    double sum = 0;
    for (int64_t i = 0; i < group.size; ++i) sum += f(element(i));
    return sum / static_cast<double>(group.size);
  };
  const auto [known, is_new] = statistics_.try_emplace(group.first);
  auto& [mean, inv_std] = known->second;
  if (is_new && rule_.name == "batch_norm" && !entry_.has_attribute("training")) {
    std::vector<double> kept;  // the running ones, which forward kept
    for (const TapeSaved& saved : entry_.saved) {
      if (saved.value.readable()) kept.push_back(saved.value.at(link.element % last));
    }
    mean = kept.size() == 2 ? kept[0] : unknown;
    inv_std = kept.size() == 2 ? kept[1] : unknown;
  } else if (is_new) {
    mean = mean_of([&](int64_t i) { return x->value.at(i); });
    const double variance = mean_of([&](int64_t i) {
      const double distance = x->value.at(i) - mean;
      return distance * distance;
    });
    const std::vector<double> epsilon = entry_.attribute("epsilon");
    inv_std = 1 / std::sqrt(variance + (epsilon.empty() ? 0 : epsilon[0]));
  }
  const auto xhat = [&, mean = mean, inv_std = inv_std](int64_t i) {
    return (x->value.at(i) - mean) * inv_std;
  };
  const auto u = [&](int64_t i) {
    OpLink other = link;
    other.element = i;
    return value("dz", other) * (operands_[1] ? operands_[1]->value.at(i % last) : unknown);
  };
  if (name == "mean") return mean;
  if (name == "inv_std") return inv_std;
  if (name == "xhat") return xhat(link.element);
  if (name == "z" && operands_[1] && operands_[2]) {
    const int64_t channel = link.element % last;
    return operands_[1]->value.at(channel) * xhat(link.element) + operands_[2]->value.at(channel);
  }
  if (name == "u") return u(link.element);
  if (name != "mean_u" && name != "mean_ux") return unknown;
  const auto [both, both_new] = gradient_means_.try_emplace(group.first);
  auto& [mean_u, mean_ux] = both->second;
  if (both_new) {  // in one pass
    mean_u = mean_of([&, &sum = mean_ux](int64_t i) {
      const double one = u(i);
      sum += one * xhat(i);
      return one;
    });
    mean_ux /= static_cast<double>(group.size);
  }
  return name == "mean_u" ? mean_u : mean_ux;
}

}  // namespace whisker
