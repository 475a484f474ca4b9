// One optimizer update over a flat block of parameters: plain data, so that it can be one kernel.
// What changes from step to step is not here but in device memory, see core/backend/step_state.h.
#pragma once

#include "core/backend/step_state.h"
#include "core/tensor/tensor.h"

#include <cstdint>
#include <type_traits>

namespace whisker {

/// Updates are PyTorch's (torch.optim.SGD, Adam, AdamW, RMSprop), written out in
/// docs/reference/optimizers.md. With state->applies == 0 nothing changes. Kernels hold tensors by
/// another Handle.
template <class Handle>
struct BasicOptimizerStep {
  OptimizerKind kind = OptimizerKind::sgd;
  bool nesterov = false;
  bool centered = false;
  bool decoupled_decay =
      false;             ///< decay multiplies the value (AdamW) instead of adding to the gradient
  double momentum = 0;   ///< sgd, rmsprop
  double beta1 = 0.9;    ///< adam
  double beta2 = 0.999;  ///< adam; rmsprop's alpha
  double epsilon = 1e-8;
  double clip_value = 0;  ///< clamps every gradient, times gradient_factor, to +-this; 0 is off
  /// In device memory: learning rate, gradient_factor, steps (1 at the first), bias corrections.
  const StepState* state = nullptr;
  /// f64 (groups, 2): factor of the learning rate, weight decay.
  Handle groups = {};
  Handle block_group = {};  ///< u8, the group of each 256-byte block of `value`
  // Flat, all of one count; each begins at a multiple of 16 bytes.
  Handle value = {};     ///< f32 (or f64)
  Handle gradient = {};  ///< as `value`, or bf16, or f16
  Handle compute = {};   ///< undefined, or bf16 or f16: the new value rounded, written beside it
  /// Moments are as `value`, or undefined, as the kind needs. moment1: momentum buffer (sgd,
  /// rmsprop; overwritten by step 1), mean of gradients (adam). moment2: mean of squares (adam,
  /// rmsprop). moment3: mean of gradients (centered rmsprop).
  Handle moment1 = {}, moment2 = {}, moment3 = {};

  auto map(auto&& fn) const {
    return BasicOptimizerStep<std::decay_t<decltype(fn(value))>>{
        kind,      nesterov,     centered,    decoupled_decay, momentum,    beta1,
        beta2,     epsilon,      clip_value,  state,           fn(groups),  fn(block_group),
        fn(value), fn(gradient), fn(compute), fn(moment1),     fn(moment2), fn(moment3)};
  }
};
using OptimizerStep = BasicOptimizerStep<Tensor>;

/// average = d average + (1 - d) value, with d = decay, or with `warmup` min(decay, (1 + n) / (10 +
/// n)) in the n-th update (Polyak and Juditsky 1992). Flat tensors of one count and dtype.
struct AverageStep {
  double decay = 0;
  bool warmup = false;
  const int32_t* applies = nullptr;  ///< in device memory: nothing changes when 0; null: always
  int64_t* updates = nullptr;        ///< in device memory: n - 1 before, n after
  Tensor value = {}, average = {};
};

}  // namespace whisker
