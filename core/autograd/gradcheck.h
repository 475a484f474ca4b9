// Compares gradients with central finite differences, in f64 on the reference device.
//
// Note [Kinks]
// Where the slopes to the left and to the right differ, however small the step, there is no
// gradient: any number between them is right (a subgradient), and no error is measured.
#pragma once

#include "core/tensor/tensor.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

struct GradcheckOptions {
  /// Largest accepted error: |gradient - slope| divided by the tensor's largest |gradient| or
  /// |slope|, at least by `floor` times max(1, |f|).
  double tolerance = 1e-6;
  double floor = 1e-4;
  /// Half the distance between the two points. A mismatch is measured again with a tenth of it,
  /// three times: this removes a relu's kink between the points, but not a wrong gradient.
  double step = 1e-5;
  int64_t elements = 0;            ///< of each tensor, drawn without repetition; 0: all
  uint64_t seed = 7;               ///< for the choice of elements and the weights of gradcheck()
  std::vector<double> sweep = {};  ///< steps for GradcheckResult::sweep
  bool on_tape = false;            ///< f takes gradients itself
};

/// A point without a gradient. See Note [Kinks].
struct GradcheckKink {
  int64_t index = 0;  ///< row-major position
  double left = 0, right = 0, gradient = 0;
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
  std::vector<GradcheckKink> kinks = {};  ///< of the elements checked
  /// The largest error of the finite differences with each step of GradcheckOptions::sweep, kinks
  /// left out.
  std::vector<double> sweep = {};
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
