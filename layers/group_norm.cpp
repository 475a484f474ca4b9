// Gamma starts at one, beta at zero.
#include "layers/group_norm.h"

#include "core/ops/ops.h"
#include "layers/initializers.h"

namespace whisker {

GroupNorm::GroupNorm(const Options& options) : options_(options) {
  if (options.channels < 1 || options.groups < 1 || options.channels % options.groups != 0) {
    fail(ErrorKind::usage, "group_norm: expected groups that divide the {} channels, got {}. Set groups.",
         options.channels, options.groups);
  }
  if (!(options.epsilon > 0)) {
    fail(ErrorKind::usage, "group_norm: expected epsilon above 0, got {}", options.epsilon);
  }
  weight_ = add_parameter("weight", {options.channels}, ParameterRole::norm,
                          make_initializer(InitializerSpec::ones(), {}));
  bias_ = add_parameter("bias", {options.channels}, ParameterRole::norm,
                        make_initializer(InitializerSpec::zeros(), {}));
}

Tensor GroupNorm::forward(const Tensor& x, const Pass&) {
  return group_norm(x, weight_->value(), bias_->value(),
                    {.groups = options_.groups, .epsilon = options_.epsilon});
}

std::string GroupNorm::describe() const {
  return fmt::format("{} groups", options_.groups);
}

Shape GroupNorm::output_shape(const Shape& x) const {
  if ((x.rank() != 2 && x.rank() != 4) || x[-1] != options_.channels) {
    fail(ErrorKind::usage, "group_norm: expected (N, H, W, {0}) or (N, {0}), got {1}",
         options_.channels, x);
  }
  return x;
}

OperatorCost GroupNorm::cost(const Shape& x, bool x_needs_grad) const {
  const bool needs = x_needs_grad || !frozen();
  const int64_t statistics = 2 * x[0] * options_.groups;
  return {.keeps_input = needs, .kept_bytes = needs ? statistics * element_bytes : 0};
}

}  // namespace whisker
