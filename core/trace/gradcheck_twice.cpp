#include "core/trace/gradcheck_twice.h"

#include "core/autograd/autograd.h"
#include "core/ops/ops.h"

namespace whisker {

std::vector<GradcheckResult> gradcheck_twice(const std::function<Tensor()>& f,
                                             std::span<const GradcheckInput> inputs,
                                             GradcheckOptions options) {
  std::vector<GradcheckInput> all(inputs.begin(), inputs.end());
  std::vector<Tensor> leaves;
  for (const GradcheckInput& input : inputs) leaves.push_back(input.tensor.set_requires_grad());
  Tensor dy;
  {
    const NoGrad off_tape;
    const Tensor y = f();
    dy = rand_uniform(y.shape(), 0.5, 1.5, options.seed, 0, y.options());
  }
  all.push_back({"dy", dy.set_requires_grad()});
  const auto gradients = [&] {
    std::vector<Tensor> flat;
    for (const Tensor& one : grad(f(), leaves, {.gradient = dy, .create_graph = true})) {
      if (one.defined()) flat.push_back(one.reshape({-1}));
    }
    return concat(flat, 0);
  };
  options.on_tape = true;
  return gradcheck(gradients, all, options);
}

}  // namespace whisker
