// Recurrent layers on the GPU against the reference, forward and backward, for one set of options.
#pragma once

#include "core/ops/ops.h"
#include "core/ops/recurrent_cells.h"
#include "tests/core/cuda/gpu.h"
#include "tests/support/agreement.h"
#include "tests/support/tolerance.h"

#include <cmath>
#include <string>
#include <vector>

namespace whisker::test {

struct RecurrentCase {
  RecurrentKind kind = RecurrentKind::lstm;
  int64_t steps = 17, batch = 8, features = 24, hidden = 40;
  int64_t projection = 0, layers = 1, directions = 1;
  bool bias = true, initial = false;
  std::vector<double> lengths = {};
  double dropout = 0;

  bool is_lstm() const { return kind == RecurrentKind::lstm; }
  int64_t gates() const { return is_lstm() ? 4 : kind == RecurrentKind::gru ? 3 : 1; }
  int64_t output() const { return projection > 0 ? projection : hidden; }
  int64_t cells() const { return layers * directions; }
  std::string name(DType dtype) const {
    return fmt::format(
        "{} {} steps {} batch {} features {} hidden {} layers {} directions {} projection {} "
        "bias {} initial {} dropout {}{}",
        name_of(kind), name_of(dtype), steps, batch, features, hidden, layers, directions,
        projection, bias, initial, dropout, lengths.empty() ? "" : " with lengths");
  }

  /// x, then each cell's parameters, then the initial states: of these only parameters have fewer
  /// than three axes.
  std::vector<Shape> shapes() const {
    std::vector<Shape> all = {{steps, batch, features}};
    for (int64_t cell = 0; cell < cells(); ++cell) {
      const int64_t inputs = cell < directions ? features : directions * output();
      all.push_back({gates() * hidden, inputs});
      all.push_back({gates() * hidden, output()});
      if (bias) all.push_back({gates() * hidden});
      if (bias) all.push_back({gates() * hidden});
      if (projection > 0) all.push_back({projection, hidden});
    }
    if (initial) all.push_back({cells(), batch, output()});
    if (initial && is_lstm()) all.push_back({cells(), batch, hidden});
    return all;
  }

  static bool is_parameter(const Shape& shape) { return shape.rank() < 3; }

  // Weights as small as layers begin with: states stay away from the ends of their range, and
  // steps do not amplify what rounding left.
  double weight_scale() const { return 0.6 / std::sqrt(static_cast<double>(hidden)); }

  /// Of operands with shapes(), by the operator or `by_cells`; without `own_lengths` over all
  /// steps.
  RecurrentResult compute(const std::vector<Tensor>& x, const Tensor& own_lengths,
                          bool by_cells = false) const {
    size_t next = 1;
    std::vector<RecurrentParameters> parameters(static_cast<size_t>(cells()));
    for (RecurrentParameters& p : parameters) {
      p.w_ih = x[next++];
      p.w_hh = x[next++];
      if (bias) p.b_ih = x[next++];
      if (bias) p.b_hh = x[next++];
      if (projection > 0) p.w_hr = x[next++];
    }
    RecurrentOptions options{.kind = kind,
                             .bidirectional = directions == 2,
                             .lengths = own_lengths,
                             .dropout = dropout,
                             .key = {.seed = 5, .stream = 6, .step = 7}};
    if (initial) options.initial.h = x[next++];
    if (initial && is_lstm()) options.initial.c = x[next++];
    return by_cells ? recurrent_by_cells(x[0], parameters, options)
                    : recurrent(x[0], parameters, options);
  }

  /// y and the last states, one after the other, with weights of weight_scale().
  Tensor run(std::vector<Tensor> x) const {
    for (Tensor& operand : x) {
      if (is_parameter(operand.shape())) operand = affine(operand, weight_scale(), 0);
    }
    Tensor own_lengths;
    if (!lengths.empty()) {
      own_lengths = from_vector(lengths, {batch}, {.dtype = DType::i64, .device = x[0].device()});
    }
    const RecurrentResult result = compute(x, own_lengths);
    std::vector<Tensor> parts = {result.y.reshape({-1}), result.last.h.reshape({-1})};
    if (is_lstm()) parts.push_back(result.last.c.reshape({-1}));
    return concat(parts, 0);
  }
};

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
                    .function = [s](const std::vector<Tensor>& x) { return s.run(x); },
                    // Tolerance for another library's sigmoid and tanh at every step.
                    .tolerance = 2e-5 + tolerance(rounded, s.steps * s.batch * s.layers),
                    .dtype = dtype,
                    .device = gpu});
}

}  // namespace whisker::test
