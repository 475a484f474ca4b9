// Gradients of gradients beside finite differences.
#pragma once

#include "core/autograd/gradcheck.h"

namespace whisker {

/// gradcheck() of d(dy . f())/d(inputs) with respect to the inputs and dy, numbers in [0.5, 1.5).
/// Throws usage, as the engine does, where an operator of f has no gradients of gradients.
std::vector<GradcheckResult> gradcheck_twice(const std::function<Tensor()>& f,
                                             std::span<const GradcheckInput> inputs,
                                             GradcheckOptions options = {});

}  // namespace whisker
