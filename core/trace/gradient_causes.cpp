// Each term of an operator's local rule is a gradient times a factor: where the factor is 0, or
// next to it, the operator's name tells the cause. Large tensors have no terms, but zeros that are
// counted.
#include "core/trace/gradient_paths.h"
#include "core/trace/lost_terms.h"
#include "core/trace/op_links.h"
#include "core/trace/term_numbers.h"

#include <algorithm>
#include <cmath>

namespace whisker {
namespace {

constexpr double least_slope = 1e-3;  // below it an activation counts as saturated

struct CauseRow {
  std::string_view names;  // between blanks
  std::string_view cause, reason;
};
constexpr CauseRow cause_rows[] = {
    {" relu relu6 ", "dead relu", "slope 0"},
    {" tanh sigmoid softmax hard_sigmoid hard_swish gelu silu softplus ", "saturated",
     "the slope is below 0.001"},
    {" max min maximum minimum ", "lost maximum", "another element is chosen"},
    {" max_pool2d conv2d_max_pool2d ", "lost maximum", "its windows choose other elements"},
    {" where ", "masked", "the condition chooses the other operand"},
    {" recurrent ", "masked", "these steps are behind the sequence's end"},
    {" dropout drop_path ", "dropped", "the mask that was drawn is 0"},
    {" clamp ", "clamped", "x is beyond a bound, slope 0"},
    {" affine ", "zero factor", "it multiplies by 0"},
    {" embedding ", "no path", "no index of this batch reads the row"},
    {" binary_cross_entropy_with_logits cross_entropy ", "saturated",
     "the prediction equals the target"},
};

LostGradient loss_of(std::string_view name) {
  for (const CauseRow& row : cause_rows) {
    if (row.names.find(fmt::format(" {} ", name)) == std::string_view::npos) continue;
    return {.cause = std::string(row.cause), .reason = std::string(row.reason)};
  }
  return {.cause = "zero factor", .reason = fmt::format("the slope of {} is 0", name)};
}

// Of elements that have a part in no term.
LostGradient unread_loss(const std::string& name) {
  const LostGradient loss = loss_of(name);
  if (loss.cause == "lost maximum" || loss.cause == "no path") return loss;
  return {.cause = "no path", .reason = fmt::format("{} reads other elements", name)};
}

bool is_product(const TapeEntry& entry) {
  return entry.name == "mul" || entry.name == "matmul" || entry.name == "linear" ||
         entry.name == "conv2d";
}

// What is lost of an operand whose other factor is 0. drop_path multiplies by a mask that dropout
// made.
LostGradient product_loss(const Recording& recording, const TapeEntry& entry, size_t position) {
  for (const TapeInput& input : entry.inputs) {
    if (input.position != 1 - position) continue;
    const TapeEntry& other = recording.entries[input.entry];
    if (other.name == "dropout" && entry.name == "mul") return loss_of("drop_path");
    const char* cause = "constant input";
    if (entry.name == "mul" && other.kind == TapeKind::constant) cause = "masked";
    if (position == 0 && entry.name != "mul") cause = "zero weight";
    return {.cause = cause, .reason = fmt::format("{} is 0", recording.label(input.entry))};
  }
  return loss_of(entry.name);
}

// Whether a row of logits is one on which softmax is exactly 0 and 1.
bool is_certain(const std::vector<double>& logits, size_t row, size_t classes) {
  std::vector<double> own(logits.begin() + static_cast<std::ptrdiff_t>(row * classes),
                          logits.begin() + static_cast<std::ptrdiff_t>((row + 1) * classes));
  std::sort(own.rbegin(), own.rend());
  return own.size() < 2 || own[0] - own[1] > 15;
}

LostGradient counted_loss(LostGradient loss, int64_t lost, int64_t of) {
  loss.lost = loss.terms = lost;
  loss.of = loss.of_terms = of;
  return loss;
}

// By the zeros of whole tensors, where terms are not known.
std::vector<LostGradient> losses_by_zeros(const Recording& recording, const TapeEntry& entry,
                                          size_t position) {
  const auto zeros = [](const TapeOutput& tensor) {
    return tensor.value.known() ? tensor.value.summary().zeros : 0;
  };
  const TapeOutput& y = entry.outputs[0];
  const std::string_view fused = fused_activation(entry);
  const std::string_view name = fused.empty() ? std::string_view(entry.name) : fused;
  std::vector<LostGradient> losses;
  if (name == "relu" || name == "relu6" || name == "dropout" || name == "drop_path") {
    if (zeros(y) > 0) losses.push_back(counted_loss(loss_of(name), zeros(y), y.shape.count()));
  }
  const TapeOutput* const other =
      is_product(entry) && position < 2 ? operand_at(recording, entry, 1 - position) : nullptr;
  if (losses.empty() && other && other->shape.count() > 0 &&
      zeros(*other) == other->shape.count()) {
    losses.push_back(
        counted_loss(product_loss(recording, entry, position), zeros(*other), zeros(*other)));
  }
  return losses;
}

// Elements of (T,N,F) that stand behind the end of their sequence.
std::vector<LostGradient> losses_behind_ends(const TapeEntry& entry, const TapeOutput& x,
                                             const ElementSet& reached) {
  const auto lengths = std::find_if(entry.saved.begin(), entry.saved.end(),
                                    [](const TapeSaved& one) { return one.what == "lengths"; });
  if (lengths == entry.saved.end() || x.shape.rank() != 3 ||
      static_cast<int64_t>(lengths->value.all.size()) != x.shape[1]) {
    return {};
  }
  int64_t lost = 0, of = 0;
  for (int64_t i = 0; i < x.shape.count(); ++i) {
    if (!reached.has(i)) continue;
    ++of;
    const int64_t step = i / x.shape[2] / x.shape[1], row = i / x.shape[2] % x.shape[1];
    lost += static_cast<double>(step) >= lengths->value.all[static_cast<size_t>(row)];
  }
  if (lost == 0) return {};
  return {counted_loss(loss_of("recurrent"), lost, of)};
}

// The factors of one operand's terms, by the rule.
class Factors {
 public:
  Factors(const Recording& recording, const TapeEntry& entry, const OpRule& rule, size_t position)
      : recording_(recording),
        entry_(entry),
        rule_(rule),
        position_(position),
        numbers_(recording, entry, rule) {
    if (is_product(entry) && position < 2) {
      other_ = operand_at(recording, entry, 1 - position);
    } else if (position < 4) {
      const std::string_view term = rule.backward_term[position];
      const bool shown = term.empty() && !rule.forward_term.empty();
      const std::string_view text = shown ? rule.backward[position] : term;
      if (!text.empty() && !is_product(entry)) {
        term_ = parse_formula({.what = "rule", .text = std::string(text)});
      }
    }
  }

  // What loses the term's gradient `dy`, which is not 0; no cause where it goes on.
  LostTerm loss(const OpLink& link, double dy) const {
    const std::string_view fused = fused_activation(entry_);
    const double y = numbers_.value("y", link);
    if (!fused.empty() && fused != entry_.name) {
      const double slope = numbers_.value("dz", link) / dy;
      if (is_lost(fused, slope)) return {activation_loss(fused, y), Subject::result};
    }
    if (other_) {
      const int64_t at = link.operands[1 - position_];
      const bool known = at >= 0 && at < static_cast<int64_t>(other_->value.all.size());
      const bool zero = known && other_->value.all[static_cast<size_t>(at)] == 0;
      if (!zero) return {};
      return {product_loss(recording_, entry_, position_), Subject::factor};
    }
    if (!term_) return {};
    const double slope =
        entry_.name == "softmax" ? y * (1 - y) : numbers_.evaluate(*term_, link) / dy;
    // 0 / 0, where all rows are of classes that weigh 0.
    const bool undefined = std::isnan(slope) && entry_.has_attribute("class_weight");
    if (!undefined && !is_lost(entry_.name, slope)) return {};
    if (entry_.name == "cross_entropy") return row_loss(link);
    const bool chooses = loss_of(entry_.name).cause == "lost maximum";
    return {activation_loss(entry_.name, y), chooses ? Subject::operand : Subject::result};
  }

 private:
  static bool is_lost(std::string_view name, double slope) {
    const bool gradual =
        loss_of(name).cause == "saturated" && name.find("cross_entropy") == std::string_view::npos;
    return gradual ? std::abs(slope) < least_slope : slope == 0;
  }
  LostGradient activation_loss(std::string_view name, double y) const {
    if (name == "relu6" && y > 0) return {.cause = "clamped", .reason = "slope 0 at y = 6"};
    const std::vector<double> exponent = entry_.attribute("exponent");
    if (name == "pow" && !exponent.empty() && exponent[0] > 1) {
      return {.cause = "zero factor", .reason = "base 0, slope 0"};
    }
    return loss_of(name);
  }
  LostTerm row_loss(const OpLink& link) const {
    const TapeOutput* const x = operand_at(recording_, entry_, 0);
    const LostTerm equal{loss_of(entry_.name), Subject::operand};
    if (x->shape.rank() == 0) return equal;
    const auto classes = static_cast<size_t>(x->shape[-1]);
    const std::vector<double> weights = entry_.attribute("class_weight");
    const size_t row = static_cast<size_t>(link.operands[0]) / classes;
    if (std::find(weights.begin(), weights.end(), 0.0) == weights.end() || x->value.all.empty() ||
        is_certain(x->value.all, row, classes)) {
      return equal;
    }
    return {{.cause = "class weight zero", .reason = "the weight of the row's class is 0"},
            Subject::row};
  }

  const Recording& recording_;
  const TapeEntry& entry_;
  const OpRule& rule_;
  size_t position_;
  TermNumbers numbers_;
  const TapeOutput* other_ = nullptr;
  std::optional<Formula> term_;
};

}  // namespace

std::vector<LostGradient> lost_gradients(const Recording& recording, const TapeEntry& entry,
                                         const TapeInput& input, const ElementSet& reached) {
  const TapeOutput& operand = recording.entries[input.entry].outputs[input.output];
  if (entry.name == "recurrent" && input.position == 0) {
    return losses_behind_ends(entry, operand, reached);
  }
  const OpRule* const rule = find_rule(entry.name);
  const bool norm = entry.name.find("_norm") != std::string::npos;  // whose terms mix all elements
  if (!rule || norm) return losses_by_zeros(recording, entry, input.position);
  const Factors factors(recording, entry, *rule, input.position);
  const int64_t classes = operand.shape.rank() > 0 ? std::max<int64_t>(1, operand.shape[-1]) : 1;
  std::vector<bool> linked(static_cast<size_t>(operand.shape.count()));
  TermCount count;
  const bool known = for_each_link(recording, entry, [&](const OpLink& link) {
    const size_t slot = input.position - link.first_position;  // wraps where it is before
    if (slot >= 4 || link.operands[slot] < 0 || !reached.has(link.operands[slot])) return;
    const int64_t own = link.operands[slot];
    linked[static_cast<size_t>(own)] = true;
    const std::vector<double>& gradient = entry.outputs[link.output].gradient.all;
    if (gradient.empty()) return;
    const double dy = gradient[static_cast<size_t>(link.element)];
    if (dy == 0) return;
    const int64_t factor = slot < 2 ? link.operands[1 - slot] : -1;
    count.add({link.element, factor, own, own / classes}, factors.loss(link, dy));
  });
  if (!known) return losses_by_zeros(recording, entry, input.position);
  std::vector<LostGradient> losses = count.losses();
  int64_t unread = 0, asked = 0;
  for (size_t i = 0; i < linked.size(); ++i) {
    if (!reached.has(static_cast<int64_t>(i))) continue;
    ++asked;
    unread += !linked[i];
  }
  // Others read a part as a matter of course.
  const bool chooses = loss_of(entry.name).cause != "zero factor";
  if (unread > 0 && (chooses || unread == asked)) {
    losses.push_back(counted_loss(unread_loss(entry.name), unread, asked));
  }
  return losses;
}

LostGradient other_loss(const Recording& recording, const TapeEntry& entry, const TapeInput& input,
                        const std::vector<LostGradient>& losses) {
  const DType dtype = recording.entries[input.entry].outputs[input.output].dtype;
  for (const LostGradient& one : losses) {
    if (one.all()) return one;
  }
  if (dtype == DType::f16) {
    return {.cause = "underflow", .reason = "less than half of 6e-08, the smallest f16, is 0"};
  }
  if (entry.name.find("_norm") != std::string::npos) {
    if (input.position == 1) {
      return {.cause = "constant input", .reason = "x is the same over what it is normalised by"};
    }
    if (input.position == 0) {
      return {.cause = "cancelled", .reason = "a norm subtracts what all elements have in common"};
    }
  }
  int64_t lost = 0;
  for (const LostGradient& one : losses) {
    if (one.of_terms == losses[0].of_terms) lost += one.terms;
  }
  if (!losses.empty() && lost == losses[0].of_terms) return losses[0];
  if (entry.name == "softmax" && !entry.outputs[0].value.all.empty()) {  // whose slopes are known
    return {.cause = "cancelled", .reason = "softmax subtracts what a row's dy have in common"};
  }
  LostGradient loss = loss_of(entry.name);
  if (loss.cause != "zero factor") return loss;
  return {.cause = "cancelled", .reason = "terms that are not 0 add up to 0"};
}

std::optional<LostGradient> nearly_lost(const TapeEntry& entry, const TapeInput& input,
                                        const std::vector<LostGradient>& losses, double arrives,
                                        double given) {
  if (!(given > 0 && std::isfinite(arrives))) return {};
  if (!losses.empty()) {
    constexpr double tiny = 1e-6;
    const bool flat = losses[0].all() && losses[0].cause == "saturated";
    return flat || given < tiny * arrives ? std::optional(losses[0]) : std::nullopt;
  }
  // Sums of dy alone, whose terms cannot be small by themselves.
  const bool bias = input.position == 2 && (entry.name == "linear" || entry.name == "conv2d" ||
                                            entry.name == "conv2d_max_pool2d");
  const bool norm = input.position == 0 && entry.name.find("_norm") != std::string::npos;
  if (!bias && !norm && entry.name != "add" && entry.name != "sub") return {};
  const double rounding = entry.dtype() == DType::f64   ? 0x1p-53
                          : entry.dtype() == DType::f32 ? 0x1p-24
                                                        : 0;
  if (given > 16 * rounding * arrives) return {};
  return LostGradient{.cause = "cancelled", .reason = "terms add up to a rounding error"};
}

}  // namespace whisker
