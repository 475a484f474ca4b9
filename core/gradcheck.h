// Gradients against central finite differences, in f64 on the reference device: the definition of
// a derivative as the judge of every backward pass.
#pragma once

#include "core/tensor.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

struct GradcheckOptions {
  /// Largest accepted error: |gradient - slope| over the largest of either in its tensor, or over
  /// `floor` times max(1, |f|) where all of them are smaller.
  double tolerance = 1e-6;
  double floor = 1e-4;
  /// Half the distance of the two points. A mismatch is measured again with a tenth of it, twice:
  /// the kink of a relu between the points goes away, a wrong gradient stays.
  double step = 1e-5;
  int64_t elements = 0;  ///< of each tensor, drawn without repetition; 0: all
  uint64_t seed = 7;     ///< of the drawing, and of the weights that make one number of a result
};

/// The worst element of one tensor.
struct GradcheckResult {
  std::string name;
  Shape shape;
  int64_t checked = 0;
  int64_t index = 0;  ///< row-major position
  double gradient = 0, slope = 0;
  double error = 0;  ///< as GradcheckOptions::tolerance measures it; NaN counts as infinite
  bool passed = true;
};

struct GradcheckInput {
  std::string name;
  Tensor tensor;  ///< f64 on the reference device; a leaf, or made one
};

/// d(weights . f())/d(input) for every input, where f reads the inputs' memory and the weights are
/// fixed numbers in [0.5, 1.5). `f` must give the same result every time. Throws usage for other
/// dtypes and devices.
std::vector<GradcheckResult> gradcheck(const std::function<Tensor()>& f,
                                       std::span<const GradcheckInput> inputs,
                                       const GradcheckOptions& options = {});

/// "(2,0,5)": the position of the row-major element `index`.
std::string position_in(const Shape& shape, int64_t index);

}  // namespace whisker
