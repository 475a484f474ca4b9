#include "apps/study/grading/diagnosis.h"

#include "core/autograd/gradcheck.h"
#include "core/ops/ops.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

namespace whisker {
namespace {

using Doubles = std::vector<double>;

// What a wrong answer would give for one problem; nothing where it is not defined.
using Variant = std::function<std::optional<Doubles>(const Check&)>;

// Whether result `r` is that of the variant in each check where that is defined, and is wrong by it
// in one at least.
bool is_variant(const std::vector<const Check*>& checks, size_t r, const Variant& variant) {
  bool differs = false;
  for (const Check* check : checks) {
    const std::optional<Doubles> values = variant(*check);
    if (!values) continue;  // as a product of other shapes
    if (!results_agree(check->outcome->results[r], *values, check->problem->in_double))
      return false;
    differs = differs || !check->agrees[r];
  }
  return differs;
}

Variant computed(std::function<Tensor(const Problem&)> compute, size_t count_of) {
  return [compute, count_of](const Check& check) -> std::optional<Doubles> {
    try {
      const Tensor values = compute(*check.problem);
      if (values.count() != static_cast<int64_t>(check.right[count_of].size())) return {};
      return values.to_vector();
    } catch (const Error&) {
      return {};
    }
  };
}

std::optional<Doubles> transposed(const Check& check, size_t r) {
  const Shape& shape = check.problem->right[r].second.shape();
  if (shape.rank() != 2 || shape[0] == 1 || shape[1] == 1) return {};
  return transpose(check.problem->right[r].second, {1, 0}).to_vector();
}

// dx of dy = 1.
std::optional<Doubles> without_dy(const Exercise& exercise, const Check& check, size_t r) {
  Values values = check.problem->values;
  if (!values.has("dy") || exercise.expected) return {};
  values.set("dy", ones(values["dy"].shape(), values["dy"].options()));
  return engine_gradient(exercise, values, check.problem->right[r].first.substr(1)).to_vector();
}

// c where got = c right.
std::optional<double> factor_of(const Check& check, size_t r) {
  const Doubles &got = check.outcome->results[r], &right = check.right[r];
  const double square = std::inner_product(right.begin(), right.end(), right.begin(), 0.0);
  const double factor = std::inner_product(got.begin(), got.end(), right.begin(), 0.0) / square;
  Doubles scaled = right;
  for (double& value : scaled) value *= factor;
  if (!std::isfinite(factor)) return {};
  if (!results_agree(got, scaled, check.problem->in_double)) return {};
  return factor;
}

// An extent that explains the factor in each check: "x.extent(0)".
std::string extent_of_factors(const std::vector<const Check*>& checks, const Doubles& factors,
                              bool inverse) {
  for (const auto& [name, first] : checks[0]->problem->setup->tensors) {
    for (int axis = -1; axis < first.rank(); ++axis) {  // -1: all elements
      bool explains = true;
      for (size_t i = 0; i < checks.size() && explains; ++i) {
        const Shape& shape = checks[i]->problem->values[name].shape();
        const auto extent = static_cast<double>(axis < 0 ? shape.count() : shape[axis]);
        explains = std::fabs(factors[i] * (inverse ? extent : 1 / extent) - 1) < 1e-3;
      }
      if (!explains) continue;
      return axis < 0 ? fmt::format("the number of elements of {}", name)
                      : fmt::format("{}.extent({})", name, axis);
    }
  }
  return "";
}

std::string explained_factor(const std::vector<const Check*>& checks, size_t r) {
  Doubles factors;
  for (const Check* check : checks) {
    const std::optional<double> factor = factor_of(*check, r);
    if (!factor) return "";
    factors.push_back(*factor);
  }
  const double first = factors[0];
  const bool is_constant = std::ranges::all_of(
      factors, [&](double factor) { return std::fabs(factor - first) <= 1e-3 * std::fabs(first); });
  if (is_constant && std::fabs(first + 1) < 1e-3) return "the sign is wrong, and nothing else";
  std::string extent = extent_of_factors(checks, factors, false);
  if (!extent.empty()) {
    return fmt::format(
        "it is {} times too large: a scale of 1 / {} is missing, or a mean became a "
        "sum",
        extent, extent);
  }
  extent = extent_of_factors(checks, factors, true);
  if (!extent.empty()) {
    return fmt::format("it is divided by {}, which does not belong there: a mean instead of a sum",
                       extent);
  }
  if (!is_constant) return "";
  return fmt::format("it is {:.4g} times what it should be: a constant factor", first);
}

// An input that each element is multiplied by and should not be, one by which it is not multiplied,
// or both.
std::string wrong_factor(const Exercise& exercise, const std::vector<const Check*>& checks,
                         size_t r) {
  std::vector<std::string> names = {""};
  for (const AnswerParameter& parameter : parameters_of(exercise)) {
    if (!parameter.is_result()) names.push_back(parameter.name);
  }
  for (const std::string& extra : names) {
    for (const std::string& missing : names) {
      const auto product = [&](const Problem& problem) {
        const Tensor& right = problem.right[r].second;
        const Tensor y = extra.empty() ? right : right * problem.values[extra];
        return missing.empty() ? y : y / problem.values[missing];
      };
      if (extra == missing || !is_variant(checks, r, computed(product, r))) continue;
      if (extra.empty()) return fmt::format("the factor {} is missing", missing);
      if (missing.empty()) return fmt::format("it is multiplied by {} once too often", extra);
      return fmt::format("the wrong tensor: it has the factor {} where {} belongs", extra, missing);
    }
  }
  return "";
}

// Elements that nobody wrote: all that are wrong are 0.
std::string left_out(const std::vector<const Check*>& checks, size_t r) {
  std::string first;
  bool some_are_right = false;
  for (const Check* check : checks) {
    if (check->agrees[r]) continue;
    const Doubles &got = check->outcome->results[r], &right = check->right[r];
    const double largest = std::fabs(
        *std::ranges::max_element(right, {}, [](double value) { return std::fabs(value); }));
    size_t zeros = 0, wrong = 0, at = 0;
    for (size_t k = 0; k < got.size(); ++k) {
      if (std::fabs(got[k] - right[k]) <= 1e-4 * largest) continue;
      if (wrong++ == 0) at = k;
      zeros += got[k] == 0;
    }
    if (zeros != wrong || wrong == 0) return "";
    some_are_right = some_are_right || wrong < got.size();
    if (first.empty()) {
      const auto& [name, tensor] = check->problem->right[r];
      first = fmt::format(
          "{} of {} elements are 0 where they should not be, the others right: {}{} is the first "
          "that is never written, or written as 0",
          wrong, got.size(), name, position_in(tensor.shape(), static_cast<int64_t>(at)));
    }
  }
  return some_are_right ? first : "";
}

std::string not_finite(const std::vector<const Check*>& checks, size_t r) {
  for (const Check* check : checks) {
    const Doubles& got = check->outcome->results[r];
    const auto found =
        std::ranges::find_if_not(got, [](double value) { return std::isfinite(value); });
    if (found == got.end()) continue;
    return fmt::format(
        "{} in {} check with {}: a division by 0, a logarithm of 0, or an exponential "
        "that is too large",
        std::isnan(*found) ? "not a number (nan)" : "infinite",
        check->problem->in_double ? "the double" : "the float", check->problem->setup->says);
  }
  return "";
}

// Why result `r` is wrong; "": not known.
std::string explain(const Exercise& exercise, const std::vector<const Check*>& checks, size_t r) {
  const auto zeros = [&](const Check& check) {
    return std::optional(Doubles(check.right[r].size()));
  };
  if (is_variant(checks, r, zeros)) return "it is 0 everywhere, as it was before the call";
  if (std::string text = not_finite(checks, r); !text.empty()) return text;
  const std::string& name = checks[0]->problem->right[r].first;
  for (const Fault& fault : exercise.faults) {
    if (fault.result != name) continue;
    const auto faulty = [&](const Problem& problem) { return fault.compute(problem.values); };
    if (is_variant(checks, r, computed(faulty, r))) return std::string(fault.says);
  }
  if (std::string text = explained_factor(checks, r); !text.empty()) return text;
  if (is_variant(checks, r, [&](const Check& check) { return transposed(check, r); })) {
    return "it is transposed: rows and columns are interchanged";
  }
  if (is_variant(checks, r, [&](const Check& check) { return without_dy(exercise, check, r); })) {
    return "dy is left out: it is right for dy = 1 alone. The chain rule multiplies by what "
           "arrives";
  }
  if (std::string text = wrong_factor(exercise, checks, r); !text.empty()) return text;
  for (size_t other = 0; other < checks[0]->right.size(); ++other) {
    const auto others = [&](const Check& check) -> std::optional<Doubles> {
      if (check.right[other].size() != check.right[r].size()) return {};
      return check.right[other];
    };
    if (other != r && is_variant(checks, r, others)) {
      return fmt::format("it holds what {} should: the two are interchanged",
                         checks[0]->problem->right[other].first);
    }
  }
  return left_out(checks, r);
}

std::vector<std::string> tags_of(std::string_view says) {
  std::vector<std::string> tags;
  while (!says.empty()) {
    const size_t comma = std::min(says.find(", "), says.size());
    tags.emplace_back(says.substr(0, comma));
    says.remove_prefix(std::min(comma + 2, says.size()));
  }
  return tags;
}

// In which setups, or types, the answer fails, where that says something.
std::string pattern(const Exercise& exercise, std::span<const Check> checks) {
  std::vector<std::string> right, wrong;  // tags
  bool double_fails = false;
  for (const Check& check : checks) {
    const bool is_right = check.is_right();
    double_fails = double_fails || (check.problem->in_double && !is_right);
    for (const std::string& tag : tags_of(check.problem->setup->says)) {
      std::vector<std::string>& list = is_right ? right : wrong;
      if (std::ranges::find(list, tag) == list.end()) list.push_back(tag);
    }
  }
  if (!double_fails && exercise.in_double) {
    return "It is right in double, and not always in float: rounding, or an exponential that is "
           "too large for float";
  }
  std::vector<std::string> only_wrong = wrong;
  std::erase_if(only_wrong,
                [&](const auto& tag) { return std::ranges::find(right, tag) != right.end(); });
  for (const std::string& tag : only_wrong) {  // one that stands in each failing check
    const bool explains = std::ranges::all_of(checks, [&](const Check& check) {
      const std::vector<std::string> tags = tags_of(check.problem->setup->says);
      return check.is_right() == (std::ranges::find(tags, tag) == tags.end());
    });
    if (explains && !right.empty()) {
      return fmt::format("It is right in each check but those with {}", tag);
    }
  }
  if (right.empty() || only_wrong.empty()) return "";
  return fmt::format("It is right in some checks with {}, and never with {}",
                     fmt::join(right, ", "), fmt::join(only_wrong, ", "));
}

}  // namespace

bool results_agree(std::span<const double> got, std::span<const double> right, bool in_double) {
  if (got.size() != right.size()) return false;
  double largest = 0;
  for (const double value : right) largest = std::max(largest, std::fabs(value));
  const double tolerance = (in_double ? 1e-8 : 2e-4) * (largest > 0 ? largest : 1);
  for (size_t k = 0; k < got.size(); ++k) {
    if (!(std::fabs(got[k] - right[k]) <= tolerance)) return false;
  }
  return true;
}

bool Check::is_right() const {
  return !agrees.empty() && std::ranges::find(agrees, false) == agrees.end();
}

std::vector<Check> checks_of(std::span<const Problem> problems, const AnswerRun& run) {
  std::vector<Check> checks;
  for (size_t i = 0; i < run.outcomes.size(); ++i) {
    Check check{.problem = &problems[i], .outcome = &run.outcomes[i], .right = {}, .agrees = {}};
    for (size_t r = 0; r < problems[i].right.size(); ++r) {
      check.right.push_back(problems[i].right[r].second.to_vector());
      if (run.outcomes[i].results.empty()) continue;
      check.agrees.push_back(
          results_agree(run.outcomes[i].results[r], check.right[r], problems[i].in_double));
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

std::vector<std::string> diagnose(const Exercise& exercise, std::span<const Check> checks) {
  std::vector<std::pair<std::string, std::string>> reasons;  // results with the same: "dx, dw"
  std::vector<const Check*> done;                            // that gave results
  for (const Check& check : checks) {
    if (!check.agrees.empty()) done.push_back(&check);
  }
  for (size_t r = 0; !done.empty() && r < done[0]->agrees.size(); ++r) {
    if (std::ranges::all_of(done, [&](const Check* check) { return check->agrees[r]; })) continue;
    const std::string why = explain(exercise, done, r);
    if (why.empty()) continue;
    const std::string& name = done[0]->problem->right[r].first;
    const auto same = std::ranges::find(reasons, why, [](const auto& one) { return one.second; });
    if (same == reasons.end())
      reasons.emplace_back(name, why);
    else
      same->first += ", " + name;
  }
  std::vector<std::string> sentences;
  for (const auto& [names, why] : reasons) sentences.push_back(fmt::format("{}: {}", names, why));
  if (done.size() == checks.size()) {
    if (std::string text = pattern(exercise, checks); !text.empty()) sentences.push_back(text);
  }
  return sentences;
}

}  // namespace whisker
