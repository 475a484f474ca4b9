// Limits follow common practice: an update changes weights by about a thousandth; a gradient that
// is a thousand times larger than at the loss has exploded, as vanished_gradient is for a smaller.
#include "apps/study/gradient_flow.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "core/trace/gradient_paths.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/ranges.h>

namespace whisker {
namespace {

constexpr double exploded = 1 / vanished_gradient;
constexpr double large_update = 0.1, small_update = 1e-6;
constexpr double many_dead = 0.5;

// "conv2d (2.1e-05), conv2d_1 (4e-05) and 7 more".
class NameList {
 public:
  void add(const std::string& name, const std::string& value) {
    if (++count_ > most) return;
    text_ += fmt::format("{}{} ({})", text_.empty() ? "" : ", ", name, value);
  }
  bool empty() const { return count_ == 0; }
  bool one() const { return count_ == 1; }
  std::string text() const {
    return count_ > most ? fmt::format("{} and {} more", text_, count_ - most) : text_;
  }

 private:
  static constexpr size_t most = 4;
  size_t count_ = 0;
  std::string text_;
};

}  // namespace

std::vector<std::string> GradientFlow::findings() const {
  std::vector<std::string> found;
  const size_t end = steps.size() - 1;
  const int64_t step = steps.back();
  const LayerFlow* last = nullptr;  // the one next to the loss
  for (const LayerFlow& one : layers) {
    if (std::isfinite(one.gradient[end]) && one.gradient[end] > 0) last = &one;
  }
  NameList damaged, none, unasked, small, large, dead;
  for (const LayerFlow& one : layers) {
    const double gradient = one.gradient[end];
    if (one.not_finite[end] > 0) {
      damaged.add(one.layer, counted(static_cast<int64_t>(one.not_finite[end]), "element"));
    }
    if (gradient == 0) none.add(one.layer, one.op);
    if (std::isnan(gradient) && one.not_finite[end] == 0) unasked.add(one.layer, one.op);
    if (last && &one != last && gradient > 0) {
      const double ratio = gradient / last->gradient[end];
      if (ratio < vanished_gradient) small.add(one.layer, fmt::format("{:.2g}", ratio));
      if (ratio > exploded) large.add(one.layer, fmt::format("{:.2g}", ratio));
    }
    if (one.units > 0 && one.dead_units[end] >= many_dead * static_cast<double>(one.units)) {
      const double first = one.dead_units[0];
      dead.add(one.layer, fmt::format("{:.0f} of {}{}", one.dead_units[end], one.units,
                                      std::isnan(first)
                                          ? std::string()
                                          : fmt::format("; {:.0f} in step {}", first, steps[0])));
    }
  }
  if (!damaged.empty()) {
    found.push_back(
        fmt::format("NaN or Inf in step {}: {}. Where training ended with it, whisker study nan "
                    "shows where it began; in f16 it went on, and skipped the update.",
                    step, damaged.text()));
  }
  if (!none.empty()) {
    found.push_back(fmt::format(
        "No gradient arrives at {0} in step {1}: nothing before {2} learns there. whisker study "
        "why "
        "{3}/config.yaml PARAMETER init.from={3}/best.safetensors shows for random inputs where it "
        "dies.",
        none.text(), step, none.one() ? "it" : "them", printable(run)));
  }
  if (!unasked.empty()) {
    found.push_back(
        fmt::format("No gradient is asked of {} in step {}: parameters there and before are "
                    "frozen, or the loss "
                    "does not depend on them.",
                    unasked.text(), step));
  }
  if (!small.empty()) {
    found.push_back(fmt::format(
        "The gradient vanishes on the way back: beside that of {}, next to the loss, it is {}. "
        "These layers learn slowly or not at all. A norm or a residual connection between, relu in "
        "place of tanh or sigmoid, or another start (initializer) keeps it alive.",
        last->layer, small.text()));
  }
  if (!large.empty()) {
    found.push_back(fmt::format(
        "The gradient explodes on the way back: beside that of {}, next to the loss, it is {}. One "
        "step may throw the weights far off. optimizer.clip_norm: 1, a norm between, or a smaller "
        "optimizer.lr holds it.",
        last->layer, large.text()));
  }
  if (!dead.empty()) {
    found.push_back(fmt::format(
        "Half of the relu units and more were 0 for the whole batch in step {}: {}. They get no "
        "gradient, and those that stay so are lost. A smaller optimizer.lr, a norm before the relu "
        "or leaky_relu helps.",
        step, dead.text()));
  }
  NameList fast, slow;
  for (const LayerFlow& one : layers) {
    const auto size = [](double value) { return std::isfinite(value) ? value : 0; };
    const auto largest = std::ranges::max_element(one.update, {}, size);
    if (std::isfinite(*largest) && *largest > large_update) {
      const int64_t when = steps[static_cast<size_t>(largest - one.update.begin())];
      fast.add(one.layer, fmt::format("{:.2g} in step {}", *largest, when));
    }
    const double ratio = one.update[end];
    if (ratio > 0 && ratio < small_update) slow.add(one.layer, fmt::format("{:.2g}", ratio));
  }
  if (!fast.empty()) {
    found.push_back(fmt::format(
        "One update changes more than a tenth of the weights' norm: {}. About a thousandth is "
        "usual: lower optimizer.lr, or let schedule.warmup begin with less.",
        fast.text()));
  }
  if (!slow.empty()) {
    found.push_back(fmt::format(
        "One update changes less than a millionth of the weights' norm in step {}: {}. They hardly "
        "learn: a larger optimizer.lr, unless the schedule ends here.",
        step, slow.text()));
  }
  return found;
}

std::string trend_of(const StepValues& values) {
  const size_t third = (values.size() + 2) / 3;
  if (values.size() < 2) return "";
  const auto mean_log = [&](size_t begin, size_t end) {
    double sum = 0, count = 0;
    for (size_t i = begin; i < end; ++i) {
      if (!(values[i] > 0) || !std::isfinite(values[i])) continue;
      sum += std::log(values[i]);
      ++count;
    }
    return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
  };
  const double change = mean_log(values.size() - third, values.size()) - mean_log(0, third);
  if (std::isnan(change)) return "";
  const double factor = std::exp(std::abs(change));
  if (factor < 1.5) return "steady";
  const std::string times =
      factor >= 10 && factor < 1e5 ? fmt::format("{:.0f}", factor) : fmt::format("{:.2g}", factor);
  return fmt::format("{} {}x", change > 0 ? "rises" : "falls", times);
}

}  // namespace whisker
