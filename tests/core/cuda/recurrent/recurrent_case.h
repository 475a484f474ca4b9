// Recurrent layers on the GPU against the reference, forward and backward, for one set of options.
#pragma once

#include "tests/core/cases/recurrent_case.h"
#include "tests/core/cuda/gpu.h"
#include "tests/support/agreement.h"
#include "tests/support/tolerance.h"

#include <vector>

namespace whisker::test {

/// y and the last states of the operator, one after the other, with weights of weight_scale().
inline Tensor scaled_result(const RecurrentCase& s, std::vector<Tensor> x) {
  for (Tensor& operand : x) {
    if (RecurrentCase::is_parameter(operand.shape())) {
      operand = affine(operand, s.weight_scale(), 0);
    }
  }
  return s.run(recurrent, x);
}

inline constexpr RecurrentKind recurrent_kinds[] = {
    RecurrentKind::rnn_tanh, RecurrentKind::rnn_relu, RecurrentKind::lstm, RecurrentKind::gru};

// Of rnn_relu the operator's table has small cases in 16 bits: over several steps its slope hangs
// on which side of zero a rounded sum falls.
inline constexpr RecurrentKind smooth_recurrent_kinds[] = {RecurrentKind::rnn_tanh,
                                                           RecurrentKind::lstm, RecurrentKind::gru};

/// Operands of `s` on the GPU, of normal numbers.
inline std::vector<Tensor> random_leaves(const RecurrentCase& s, DType dtype = DType::f32) {
  std::vector<Tensor> leaves;
  uint64_t stream = 0;
  for (const Shape& shape : s.shapes()) {
    leaves.push_back(rand_normal(shape, 0, 1, 3, ++stream, {.device = gpu}).to(dtype));
    leaves.back().set_requires_grad();
  }
  return leaves;
}

/// In `dtype`, to the tolerance of a type as coarse as `rounded`.
inline void expect_recurrent(const RecurrentCase& s, DType dtype, DType rounded) {
  expect_agreement({.name = s.name(dtype),
                    .shapes = s.shapes(),
                    .function = [s](const std::vector<Tensor>& x) { return scaled_result(s, x); },
                    // Tolerance for another library's sigmoid and tanh at every step.
                    .tolerance = 2e-5 + tolerance(rounded, s.steps * s.batch * s.layers),
                    .dtype = dtype,
                    .device = gpu});
}

}  // namespace whisker::test
