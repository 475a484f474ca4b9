// What a step must at least compute and move, worked out from shapes: the floor under its time.
//
// Note [Floor]
// A step is a chain of passes: each operator forwards, then its input's gradient, its weights'
// gradient, and at the end the update. A pass reads each of its operands and writes each of its
// results once, and takes at least the longer of its operations at the rate of large products and
// its bytes at the rate of large copies. Passes wait for each other, so their floors add up. What
// the count leaves out (batch statistics before they are used, masks, launches) is part of the
// distance; only fusing operators goes below.
#pragma once

#include "core/trace/operator_work.h"
#include "layers/builder/model_builder.h"

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

struct StepWork {
  std::vector<PassWork> passes;
  double operations() const;
  double bytes() const;
  double floor_ms(const Ceilings& ceilings) const;
};

struct StepWorkOptions {
  bool inference = false;
  ArenaTypes types = {};  ///< dtypes of layers, masters and gradients
  int moments = 0;        ///< what the optimizer keeps per parameter
};

/// A step over a batch of model.input.
StepWork step_work(const Model& model, const StepWorkOptions& options);

}  // namespace whisker
