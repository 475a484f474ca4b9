// One function of tensors run on the reference device and on another, forward and backward, on the
// same random operands; results and gradients must agree.
#pragma once

#include "core/ops/ops.h"
#include "core/tensor/tensor.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace whisker::test {

using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;

struct Agreement {
  std::string name;
  std::vector<Shape> shapes;  ///< of the operands, standard normal
  TensorFunction function;
  double tolerance = 2e-5;  ///< of the largest magnitude
  DType dtype = DType::f32;
  Device device = cpu_device;  ///< compared with the reference
};

/// rand_normal(shape, 0, 1, seed, stream) on the reference device. A stream's first numbers do not
/// depend on how many are drawn, so the longest draw is kept: drawing takes as long as an operator.
Tensor normal_numbers(const Shape& shape, uint64_t seed, uint64_t stream);

/// Adds a failure naming the case and the worst element where the devices differ.
void expect_agreement(const Agreement& a);
/// The same of results that are there: each within `tolerance` of its largest magnitude.
void expect_results_agree(const std::vector<std::vector<double>>& want,
                          const std::vector<std::vector<double>>& results, double tolerance);

}  // namespace whisker::test
