// Recomputation (gradient checkpointing, Chen et al. 2016, "Training deep nets with sublinear
// memory cost"): backward runs part of the forward pass again in place of keeping its values.
#pragma once

#include "core/tensor/tensor.h"

#include <functional>
#include <span>
#include <string_view>

namespace whisker {

/// A part of the forward pass. `again`: backward runs it, and results beside the returned one must
/// not be left anywhere.
using RecomputedForward = std::function<Tensor(const Tensor& x, bool again)>;

/// Returns forward(x, false), and keeps x and `parameters` alone. Backward runs forward(x, true),
/// which must compute the same: random masks go by keys. It then goes on through what that recorded
/// as if it had been recorded the first time, in the same order: gradients are the same bit for
/// bit, and leaves finish where they would. `layer` is announced to the tape's observer both times.
/// `parameters` are the leaves that `forward` reads, and what else must not change until backward:
/// throws usage where x or one of them was changed in place, or where none of them needs a gradient
/// and the result does.
Tensor recompute(std::string_view layer, RecomputedForward forward, const Tensor& x,
                 std::span<const Tensor> parameters);

}  // namespace whisker
