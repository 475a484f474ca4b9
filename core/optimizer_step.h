// One optimizer update over a flat block of parameters: plain data, so that it can be one kernel.
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <span>

namespace whisker {

enum class OptimizerKind : uint8_t { sgd, adam, adamw, rmsprop };

/// Parameters of one group share these. Blocks of 256 bytes of the arena name their group.
struct OptimizerGroup {
  double learning_rate = 0;
  double weight_decay = 0;
};

/// Updates are PyTorch's (torch.optim.SGD, Adam, AdamW, RMSprop), written out in
/// docs/optimizers.md.
struct OptimizerStep {
  OptimizerKind kind = OptimizerKind::sgd;
  bool nesterov = false;
  bool centered = false;
  bool decoupled_decay =
      false;             ///< decay multiplies the value (AdamW) instead of adding to the gradient
  double momentum = 0;   ///< sgd, rmsprop
  double beta1 = 0.9;    ///< adam
  double beta2 = 0.999;  ///< adam; rmsprop's alpha
  double epsilon = 1e-8;
  int64_t step = 1;           ///< from 1: bias correction, first momentum
  double gradient_scale = 1;  ///< multiplies every gradient: clipping by norm, accumulation
  double clip_value = 0;      ///< clamps every scaled gradient to +-this; 0 is off
  std::span<const OptimizerGroup> groups = {};
  Tensor block_group = {};           ///< u8, one per 256-byte block of `value`
  Tensor value = {}, gradient = {};  ///< flat, same count
  /// Flat or undefined, as the kind needs. moment1: momentum buffer (sgd, rmsprop; overwritten by
  /// step 1), mean of gradients (adam). moment2: mean of squares (adam, rmsprop). moment3: mean of
  /// gradients (centered rmsprop).
  Tensor moment1 = {}, moment2 = {}, moment3 = {};
};

}  // namespace whisker
