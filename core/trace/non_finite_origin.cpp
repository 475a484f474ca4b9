// An operator's values are compared with its domain and with the range of its dtype: their extremes
// are known of tensors of any size.
#include "core/trace/non_finite_origin.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace whisker {
namespace {

bool is_damaged(const RecordedValues& values) {
  return values.known() && values.summary().not_finite > 0;
}

double largest_of(DType dtype) {
  if (dtype == DType::f16) return 65504;
  if (dtype == DType::f64) return std::numeric_limits<double>::max();
  return dtype == DType::bf16 ? 0x1.FEp127 : double{std::numeric_limits<float>::max()};
}

double magnitude(const TensorStatistics& s) {
  return std::max(std::abs(s.minimum), std::abs(s.maximum));
}

const RecordedValues& value_of(const Recording& recording, const TapeInput& input) {
  return recording.entries[input.entry].outputs[input.output].value;
}

// The operator whose backward gave `target` its gradient: of those that read it, the one that ran
// last before and whose own gradient was finite.
std::optional<size_t> giver_of(const Recording& recording, const TapeInput& target) {
  const int before = recording.entries[target.entry].backward_step;
  std::optional<size_t> giver;
  bool giver_damaged = true;
  for (size_t i = target.entry + 1; i < recording.entries.size(); ++i) {
    const TapeEntry& entry = recording.entries[i];
    if (entry.backward_step == 0 || entry.backward_step >= before) continue;
    const bool reads = std::ranges::any_of(entry.inputs, [&](const TapeInput& input) {
      return input.entry == target.entry && input.output == target.output;
    });
    if (!reads) continue;
    const bool damaged = std::ranges::any_of(
        entry.outputs, [](const TapeOutput& output) { return is_damaged(output.gradient); });
    const bool later = giver && entry.backward_step > recording.entries[*giver].backward_step;
    if (giver && (damaged != giver_damaged ? damaged : !later)) continue;
    giver = i;
    giver_damaged = damaged;
  }
  return giver;
}

// What lies outside an operator's domain, and what becomes of it there.
struct Domain {
  std::string_view op;
  size_t position;  // of the operand
  enum { negative, zero } outside;
  bool backward;  // of the slope
  std::string_view text;
};
constexpr Domain domains[] = {
    {"log", 0, Domain::negative, false, "the logarithm of a negative number is NaN"},
    {"log", 0, Domain::zero, false, "the logarithm of 0 is -Inf"},
    {"log", 0, Domain::zero, true, "the slope of log, 1 / x, is infinite at 0"},
    {"sqrt", 0, Domain::negative, false, "the square root of a negative number is NaN"},
    {"sqrt", 0, Domain::zero, true, "the slope of sqrt, 1 / (2 sqrt(x)), is infinite at 0"},
    {"div", 1, Domain::zero, false, "a quotient by 0 is Inf or NaN"},
    {"div", 1, Domain::zero, true, "the slope of a quotient is infinite at a divisor of 0"},
    {"reciprocal", 0, Domain::zero, false, "1 / 0 is Inf"},
    {"reciprocal", 0, Domain::zero, true, "the slope of 1 / x is infinite at 0"},
    {"pow", 0, Domain::negative, false, "a power of a negative number is NaN unless it is whole"},
    {"pow", 0, Domain::zero, false, "a negative power of 0 is Inf"},
    {"pow", 0, Domain::zero, true, "the slope of a power below 1 is infinite at 0"},
};

std::string outside_domain(const Recording& recording, const TapeEntry& entry, bool backward) {
  for (const Domain& one : domains) {
    if (one.op != entry.name || one.backward != backward) continue;
    for (const TapeInput& input : entry.inputs) {
      if (input.position != one.position || !value_of(recording, input).known()) continue;
      const TensorStatistics s = value_of(recording, input).summary();
      if (one.outside == Domain::negative ? s.minimum >= 0 : s.zeros == 0) continue;
      const std::string label = recording.label(input.entry);
      return one.outside == Domain::negative
                 ? fmt::format("{}: {} goes down to {:.4g}.", one.text, label, s.minimum)
                 : fmt::format("{}: {} has {} of them.", one.text, label, s.zeros);
    }
  }
  return "";
}

// "1.2e+20 (4 relu), 3e+22 (dense.weight)", the magnitudes; their decimal exponents' sum.
struct Magnitudes {
  std::string text;
  double exponents = 0;
  bool weights = false;  // a parameter above what training usually makes of one
};
Magnitudes magnitudes_of(const Recording& recording, const TapeEntry& entry) {
  Magnitudes result;
  double most_elements = 1;
  for (const TapeInput& input : entry.inputs) {
    const RecordedValues& value = value_of(recording, input);
    if (!value.known()) continue;
    const double size = magnitude(value.summary());
    const TapeEntry& operand = recording.entries[input.entry];
    result.text += fmt::format("{}{:.4g} ({})", result.text.empty() ? "" : ", ", size,
                               recording.label(input.entry));
    result.exponents += std::max(0.0, std::log10(size));
    most_elements =
        std::max(most_elements, static_cast<double>(operand.outputs[input.output].shape.count()));
    result.weights = result.weights || (operand.kind == TapeKind::leaf && size > 1e3);
  }
  for (const double scale : entry.attribute("scale")) {
    result.text += fmt::format(", {:.4g} (its scale)", std::abs(scale));
    result.exponents += std::max(0.0, std::log10(std::abs(scale)));
  }
  result.exponents += std::log10(most_elements);
  return result;
}

// By how many decimal exponents a recurrent layer may grow what its first step gives: backwards,
// and forwards where no gate and no tanh bounds it, each step multiplies by the weights again.
double growth_over_steps(const Recording& recording, const TapeEntry& entry, bool backward) {
  constexpr size_t first = 3, per_cell = 5, hidden_weights = 1;
  if (entry.name != "recurrent" || (!backward && !entry.has_attribute("rnn_relu"))) return 0;
  double most = 0;
  for (const TapeInput& input : entry.inputs) {
    const TapeOutput& w = recording.entries[input.entry].outputs[input.output];
    const bool multiplies =
        input.position >= first && (input.position - first) % per_cell == hidden_weights;
    if (!multiplies || w.shape.rank() != 2 || !w.value.known()) continue;
    most = std::max(most, magnitude(w.value.summary()) * static_cast<double>(w.shape[1]));
  }
  const double steps = entry.shape().rank() > 0 ? static_cast<double>(entry.shape()[0]) : 1;
  return (steps - 1) * std::max(0.0, std::log10(most));
}

// Gives more than the product of its operands' magnitudes.
bool is_steep(std::string_view name) {
  constexpr std::string_view steep[] = {"exp", "div", "reciprocal", "pow", "log", "sqrt"};
  return std::ranges::find(steep, name) != std::end(steep);
}

void add_overflow(const Recording& recording, const TapeEntry& entry, bool back, double arrives,
                  std::vector<std::string>& sentences) {
  Magnitudes sizes = magnitudes_of(recording, entry);
  if (arrives > 0) {
    sizes.text = fmt::format("{:.4g} (the gradient that arrives), {}", arrives, sizes.text);
    sizes.exponents += std::max(0.0, std::log10(arrives));
  }
  const DType dtype = entry.dtype();
  const double largest = largest_of(dtype);
  const bool squares = entry.name.find("norm") != std::string::npos || entry.name == "attention";
  const double growth = growth_over_steps(recording, entry, back);
  const double exponents = (squares ? 2 : 1) * sizes.exponents + growth;
  if (is_steep(entry.name) || exponents >= std::log10(largest) - 1) {
    sentences.push_back(fmt::format(
        "What it computes is beyond {:.4g}, the largest {}: its operands are finite, and reach {}.",
        largest, dtype, sizes.text));
    if (growth > 0) {
      sentences.push_back(fmt::format(
          "Each of its {} steps multiplies by the hidden weights what the one before gave.",
          entry.shape()[0]));
    }
  } else {
    sentences.push_back(
        fmt::format("Its operands are finite and reach {}, which hardly overflows {}. Run it with "
                    "device=reference, in plain loops: where it is finite there, this device's "
                    "operator is wrong.",
                    sizes.text, dtype));
    return;
  }
  if (sizes.weights) {
    sentences.emplace_back(
        "Weights of that size come from updates that were too large: lower optimizer.lr, or set "
        "optimizer.clip_norm: 1.");
  }
  if (dtype == DType::f16) {
    sentences.emplace_back("precision: bf16 and f32 reach to 3.4e+38.");
  }
}

}  // namespace

std::optional<NonFiniteOrigin> NonFiniteOrigin::of(const Recording& recording) {
  for (size_t i = 0; i < recording.entries.size(); ++i) {
    const TapeEntry& entry = recording.entries[i];
    const bool damaged = std::ranges::any_of(
        entry.outputs, [](const TapeOutput& output) { return is_damaged(output.value); });
    if (!damaged) continue;
    const bool is_op = entry.kind == TapeKind::op;
    return NonFiniteOrigin{.where = is_op ? Where::forward : Where::operand, .entry = i};
  }
  for (const size_t i : recording.backward_order()) {
    const TapeEntry& entry = recording.entries[i];
    for (size_t k = 0; k < entry.outputs.size(); ++k) {
      if (!is_damaged(entry.outputs[k].gradient)) continue;
      const TapeInput target{.entry = i, .output = k};
      return NonFiniteOrigin{.where = Where::backward,
                             .entry = giver_of(recording, target).value_or(i),
                             .target = target};
    }
  }
  return std::nullopt;
}

std::vector<std::string> NonFiniteOrigin::reasons(const Recording& recording) const {
  const TapeEntry& one = recording.entries[entry];
  std::vector<std::string> sentences;
  if (where == Where::operand) {
    sentences.emplace_back(
        one.kind == TapeKind::leaf
            ? "The step began with it: the update before it made it so, or the file that training "
              "began with."
            : "It is what the step was given: no operator made it.");
    return sentences;
  }
  const bool back = where == Where::backward;
  std::string outside = outside_domain(recording, one, back);
  if (!outside.empty()) {
    outside[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(outside[0])));
    sentences.push_back(std::move(outside));
    return sentences;
  }
  double arrives = 0;
  if (back && one.outputs[0].gradient.known()) {
    arrives = magnitude(one.outputs[0].gradient.summary());
  }
  if (!back && one.has_attribute("class_weight")) {
    sentences.emplace_back(
        "A mean over rows whose class weights are all 0 is 0 / 0: the weights stand in "
        "loss.class_weights.");
    return sentences;
  }
  add_overflow(recording, one, back, arrives, sentences);
  return sentences;
}

}  // namespace whisker
