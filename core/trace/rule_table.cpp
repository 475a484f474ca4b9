#include "core/trace/rule_table.h"

namespace whisker {
namespace {

constexpr std::string_view norm_dx = "inv_std * (u - mean_u - xhat * mean_ux)";

constexpr OpRule rules[] = {
    {"add", {"a", "b"}, "a + b", "a + b", {"dy", "dy"}, {}},
    {"sub", {"a", "b"}, "a - b", "a - b", {"dy", "-dy"}, {}},
    {"mul", {"a", "b"}, "a * b", "a * b", {"dy * b", "dy * a"}, {}},
    {"div", {"a", "b"}, "a / b", "a / b", {"dy / b", "-dy * y / b"}, {}},
    {"maximum", {"a", "b"}, "max(a, b)", "max(a, b)", {"dy * (a >= b)", "dy * (a < b)"}, {}},
    {"minimum", {"a", "b"}, "min(a, b)", "min(a, b)", {"dy * (a <= b)", "dy * (a > b)"}, {}},
    {"affine", {"x"}, "scale * x + shift", "scale * x + shift", {"dy * scale"}, {}},
    {"exp", {"x"}, "exp(x)", "exp(x)", {"dy * y"}, {}},
    {"log", {"x"}, "log(x)", "log(x)", {"dy / x"}, {}},
    {"sqrt", {"x"}, "sqrt(x)", "sqrt(x)", {"dy / (2 * y)"}, {}},
    {"reciprocal", {"x"}, "1 / x", "1 / x", {"-dy * y^2"}, {}},
    {"abs", {"x"}, "abs(x)", "abs(x)", {"dy * sign(x)"}, {}},
    {"pow", {"x"}, "x^exponent", "x^exponent", {"dy * exponent * x^(exponent - 1)"}, {}},
    {"clamp",
     {"x"},
     "min(max(x, low), high)",
     "min(max(x, low), high)",
     {"dy * (x >= low) * (x <= high)"},
     {}},
    {"where",
     {"a", "b"},
     "a where the condition holds, else b",
     "",
     {"dy where the condition holds", "dy where it does not"},
     {"dy * saved", "dy * (1 - saved)"}},
    {"cast", {"x"}, "x in another dtype", "x", {"dy in x's dtype"}, {"dy"}},
    {"relu", {"x"}, "max(x, 0)", "max(x, 0)", {"dy * (y > 0)"}, {}},
    {"leaky_relu",
     {"x"},
     "max(x, slope * x)",
     "max(x, slope * x)",
     {"dy * ((x > 0) + slope * (x <= 0))"},
     {}},
    {"gelu", {"x"}, "x * cdf(x)", "x * cdf(x)", {"dy * (cdf(x) + x * pdf(x))"}, {}},
    {"silu",
     {"x"},
     "x * sigmoid(x)",
     "x * sigmoid(x)",
     {"dy * sigmoid(x) * (1 + x * (1 - sigmoid(x)))"},
     {}},
    {"sigmoid", {"x"}, "1 / (1 + exp(-x))", "1 / (1 + exp(-x))", {"dy * y * (1 - y)"}, {}},
    {"tanh", {"x"}, "tanh(x)", "tanh(x)", {"dy * (1 - y^2)"}, {}},
    {"softplus", {"x"}, "log(1 + exp(x))", "log(1 + exp(x))", {"dy * sigmoid(x)"}, {}},
    {"relu6", {"x"}, "min(max(x, 0), 6)", "min(max(x, 0), 6)", {"dy * (y > 0) * (y < 6)"}, {}},
    {"hard_sigmoid",
     {"x"},
     "min(max(x + 3, 0), 6) / 6",
     "min(max(x + 3, 0), 6) / 6",
     {"dy / 6 * (y > 0) * (y < 1)"},
     {}},
    {"hard_swish",
     {"x"},
     "x * min(max(x + 3, 0), 6) / 6",
     "x * min(max(x + 3, 0), 6) / 6",
     {"dy * ((x >= 3) + (x > -3) * (x < 3) * (2 * x + 3) / 6)"},
     {}},
    {"dropout",
     {"x"},
     "x * mask / (1 - rate)",
     "x * (y != 0) / (1 - rate)",
     {"dy * mask / (1 - rate)"},
     {"dy * (y != 0) / (1 - rate)"}},
    {"sum", {"x"}, "sum of x", "x", {"dy, at every element that was added"}, {"dy"}},
    {"mean", {"x"}, "sum of x / n", "x / n", {"dy / n"}, {}},
    {"max",
     {"x"},
     "the largest x",
     "",
     {"dy where x is the maximum, shared between ties"},
     {"dy * (x == y) / ties"}},
    {"min",
     {"x"},
     "the smallest x",
     "",
     {"dy where x is the minimum, shared between ties"},
     {"dy * (x == y) / ties"}},
    {"reshape", {"x"}, "x in another shape", "", {"dy in x's shape"}, {"dy"}},
    {"transpose",
     {"x"},
     "x with its axes in another order",
     "",
     {"dy with its axes put back"},
     {"dy"}},
    {"broadcast_to", {"x"}, "x repeated", "", {"dy summed over the repetitions"}, {"dy"}},
    {"concat", {}, "the operands side by side", "", {}, {}},
    {"split", {"x"}, "parts of x", "", {"the parts' dy side by side"}, {"dy"}},
    {"slice", {"x"}, "a part of x", "", {"dy in its place, 0 elsewhere"}, {"dy"}},
    {"embedding",
     {"table"},
     "rows of the table",
     "",
     {"dy added to the rows that were read"},
     {"dy"}},
    {"matmul", {"a", "b"}, "a @ b", "a * b", {"dy @ b^T", "a^T @ dy"}, {"dy * b", "dy * a"}},
    {"linear",
     {"x", "w", "b"},
     "x @ w^T + b",
     "x * w",
     {"dz @ w", "dz^T @ x", "dz summed over rows"},
     {"dz * w", "dz * x", "dz"}},
    {"conv2d",
     {"x", "w", "b"},
     "x under each window * w, summed, + b",
     "x * w",
     {"dz * w, summed over the windows that saw x", "dz * x, summed over the windows",
      "dz summed over positions"},
     {"dz * w", "dz * x", "dz"}},
    {"conv2d_max_pool2d",
     {"x", "w", "b"},
     "the largest of each window of conv2d(x, w, b)",
     "",
     {"dz * w, at each window's maximum alone", "dz * x, at each window's maximum alone",
      "dz summed over the maxima"},
     {}},
    {"max_pool2d",
     {"x"},
     "the largest x of each window, the first of equal ones",
     "",
     {"dy where x is its window's maximum, else 0"},
     {"dy"}},
    {"avg_pool2d",
     {"x"},
     "the mean of x over each window",
     "",
     {"dy / n at every x of the window"},
     {}},
    {"batch_norm",
     {"x", "gamma", "beta", "residual"},
     "gamma * xhat + beta, xhat = (x - mean) * inv_std per channel",
     "",
     {"inv_std * (u - mean(u) - xhat * mean(u * xhat)), u = dz * gamma",
      "dz * xhat, summed over the channel", "dz summed over the channel", "dz"},
     {norm_dx, "dz * xhat", "dz", "dz"}},
    {"layer_norm",
     {"x", "gamma", "beta"},
     "gamma * xhat + beta, xhat = (x - mean) * inv_std per row",
     "",
     {"inv_std * (u - mean(u) - xhat * mean(u * xhat)), u = dy * gamma",
      "dy * xhat, summed over rows", "dy summed over rows"},
     {norm_dx, "dy * xhat", "dy"}},
    {"softmax",
     {"x"},
     "exp(x) / sum of exp(x)",
     "",
     {"y * (dy - s), s = sum of dy * y"},
     {"y * (dy - s)"}},
    {"log_softmax",
     {"x"},
     "x - log(sum of exp(x))",
     "",
     {"dy - exp(y) * s, s = sum of dy"},
     {"dy - exp(y) * s"}},
    {"cross_entropy",
     {"x"},
     "mean of -log(softmax(x) at the target)",
     "",
     {"dy * (softmax(x) - target) / rows, of which forward kept all but dy"},
     {"dy * saved"}},
    {"binary_cross_entropy_with_logits",
     {"x"},
     "mean of softplus(x) - x * target",
     "",
     {"dy * (sigmoid(x) - target) / n, of which forward kept all but dy"},
     {"dy * saved"}},
    {"attention", {"qkv"}, "softmax(q k^T / sqrt(d)) v, per head", "", {}, {}},
    {"recurrent",
     {},
     "the recurrent layer over all steps; --cells shows it step by step",
     "",
     {},
     {}},
};

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
    // Of batch_norm alone, which has z again from x.
    {"silu", "dy * sigmoid(z) * (1 + z * (1 - sigmoid(z)))"},
    {"hard_swish", "dy * ((z >= 3) + (z > -3) * (z < 3) * (2 * z + 3) / 6)"},
};

const ActivationRule* activation_of(const TapeEntry& entry) {
  for (const ActivationRule& one : activation_rules) {
    if (entry.has_attribute(one.name)) return &one;
  }
  return nullptr;
}

}  // namespace

const OpRule* find_rule(std::string_view name) {
  for (const OpRule& rule : rules) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

std::string_view through_activation(const TapeEntry& entry) {
  const ActivationRule* const rule = activation_of(entry);
  return rule ? rule->dz : "dy";
}

std::string_view fused_activation(const TapeEntry& entry) {
  const ActivationRule* const rule = activation_of(entry);
  return rule ? rule->name : "";
}

}  // namespace whisker
