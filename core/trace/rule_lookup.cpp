// What follows from a rule and an operator's attributes: activations inside of it, kinds of
// recurrent layers, where its gradients differ.
#include "core/trace/rule_table.h"

#include <algorithm>

namespace whisker {
namespace {

struct ActivationRule {
  std::string_view name, dz;
};
constexpr ActivationRule activation_rules[] = {
    {"relu", "dy * (y > 0)"},
    {"leaky_relu", "dy * ((y > 0) + slope * (y <= 0))"},
    {"sigmoid", "dy * y * (1 - y)"},
    {"tanh", "dy * (1 - y^2)"},
    {"relu6", "dy * (y > 0) * (y < 6)"},
    {"hard_sigmoid", "dy / 6 * (y > 0) * (y < 1)"},
    // batch_norm alone has z again from x.
    {"silu", "dy * sigmoid(z) * (1 + z * (1 - sigmoid(z)))"},
    {"hard_swish", "dy * ((z >= 3) + (z > -3) * (z < 3) * (2 * z + 3) / 6)"},
};

struct RecurrentEquation {
  std::string_view kind, forward;
};
constexpr RecurrentEquation recurrent_equations[] = {
    {"lstm",
     "sigmoid(o) * tanh(c), c = sigmoid(f) * c + sigmoid(i) * tanh(g), (i, f, g, o) = "
     "x @ w_ih^T + b_ih + h @ w_hh^T + b_hh, at each step"},
    {"gru",
     "n + z * (h - n), (r, z) = sigmoid(a + b), n = tanh(a + r * b), of their thirds of "
     "a = x @ w_ih^T + b_ih and b = h @ w_hh^T + b_hh, at each step"},
    {"rnn_tanh", "tanh(x @ w_ih^T + b_ih + h @ w_hh^T + b_hh), at each step"},
    {"rnn_relu", "max(x @ w_ih^T + b_ih + h @ w_hh^T + b_hh, 0), at each step"},
};

// Rules of operators without a bias.
struct UnbiasedRule {
  std::string_view name, forward;
};
constexpr UnbiasedRule unbiased_rules[] = {
    {"linear", "x @ w^T"},
    {"conv2d", "x under each window * w, summed"},
    {"conv2d_max_pool2d", "the largest of each window of conv2d(x, w)"},
};

const ActivationRule* activation_of(const TapeEntry& entry) {
  for (const ActivationRule& one : activation_rules) {
    if (entry.has_attribute(one.name)) return &one;
  }
  return nullptr;
}

}  // namespace

bool moves_elements(const OpRule& rule) {
  return !rule.forward_term.empty() && rule.forward_term == rule.operands[0] && !rule.combines;
}

size_t rule_position(const TapeEntry& entry, size_t position) {
  constexpr size_t first = 3, per_cell = 5;  // of recurrent layers
  return entry.name == "recurrent" && position > first ? first + (position - first) % per_cell
                                                       : position;
}

std::string_view forward_text(const TapeEntry& entry, const OpRule& rule) {
  for (const RecurrentEquation& one : recurrent_equations) {
    if (entry.name == "recurrent" && entry.has_attribute(one.kind)) return one.forward;
  }
  if (rule.name == "cross_entropy" && entry.has_attribute("class_weight")) {
    return "sum of -weight * target * log(softmax(x)) / sum of weight, the weight of each row's "
           "class";
  }
  const bool biased =
      std::ranges::any_of(entry.inputs, [](const TapeInput& input) { return input.position == 2; });
  for (const UnbiasedRule& one : unbiased_rules) {
    if (!biased && one.name == rule.name) return one.forward;
  }
  return rule.forward;
}

GradientRule gradient_rule(const TapeEntry& entry, const OpRule& rule, size_t position) {
  if (rule.name == "concat") return {"its part of dy", "dy"};
  const size_t row = rule_position(entry, position);
  if (row >= most_rule_operands) return {};
  if (rule.name == "batch_norm" && row == 0 && !entry.has_attribute("training")) {
    return {"dz * gamma * inv_std of the running statistics", "dz * gamma * inv_std"};
  }
  const std::string_view shown = rule.backward[row], term = rule.backward_term[row];
  if (rule.name == "binary_cross_entropy_with_logits") {
    return {std::string(shown), "dy * (sigmoid(x) - target) / n"};
  }
  if (rule.name == "cross_entropy" && !entry.has_attribute("class_weight")) {
    return {std::string(shown), "dy * (probability - target) / rows"};
  }
  if (rule.name == "cross_entropy") {
    return {"dy * weight * (softmax(x) - target) / sum of weight, of which forward kept all but dy",
            std::string(term)};
  }
  const bool same = term.empty() && !rule.forward_term.empty();
  return {std::string(shown), std::string(same ? shown : term)};
}

std::string_view through_activation(const TapeEntry& entry) {
  const ActivationRule* const rule =
      fused_activation(entry).empty() ? nullptr : activation_of(entry);
  return rule ? rule->dz : "dy";
}

std::string_view inner_activation(const TapeEntry& entry) {
  const ActivationRule* const rule = activation_of(entry);
  return rule ? rule->name : "";
}

std::string_view fused_activation(const TapeEntry& entry) {
  return entry.name == "batch_norm_conv2d" ? "" : inner_activation(entry);
}

}  // namespace whisker
