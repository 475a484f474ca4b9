// (N, ...) -> (N, features), without a copy.
#pragma once

#include "layers/module.h"

namespace whisker {

/// Images are laid out H, W, C in memory; files keep C, H, W: see Parameter::flattened_channels.
class Flatten final : public Module {
 public:
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "flatten"; }
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape&, bool) const override { return {.view = true}; }
};

}  // namespace whisker
