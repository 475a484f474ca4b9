// Recurrent layers on the GPU against the reference, forward and backward, for one set of options.
#pragma once

#include "core/ops.h"
#include "gpu.h"
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
        "{} {} layers {} directions {} projection {} bias {} initial {} lengths {} "
        "dropout {}",
        name_of(kind), name_of(dtype), layers, directions, projection, bias, initial,
        !lengths.empty(), dropout);
  }

  /// x, then each cell's parameters, then the initial states.
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

  /// y and the last states, one after the other.
  Tensor run(const std::vector<Tensor>& x) const {
    size_t next = 1;
    // Weights as small as layers begin with: states stay away from the ends of their range, and
    // steps do not amplify what rounding left.
    const double scale = 0.6 / std::sqrt(static_cast<double>(hidden));
    const auto weight = [&] { return affine(x[next++], scale, 0); };
    std::vector<RecurrentParameters> parameters;
    for (int64_t cell = 0; cell < cells(); ++cell) {
      RecurrentParameters p;
      p.w_ih = weight();
      p.w_hh = weight();
      if (bias) p.b_ih = weight();
      if (bias) p.b_hh = weight();
      if (projection > 0) p.w_hr = weight();
      parameters.push_back(p);
    }
    RecurrentOptions options{.kind = kind,
                             .bidirectional = directions == 2,
                             .dropout = dropout,
                             .key = {.seed = 5, .stream = 6, .step = 7}};
    if (initial) options.initial.h = x[next++];
    if (initial && is_lstm()) options.initial.c = x[next++];
    if (!lengths.empty()) {
      options.lengths =
          from_vector(lengths, {batch}, {.dtype = DType::i64, .device = x[0].device()});
    }
    const RecurrentResult result = recurrent(x[0], parameters, options);
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

/// In `dtype`, to the tolerance of a type as coarse as `rounded`.
inline void expect_recurrent(const RecurrentCase& s, DType dtype, DType rounded) {
  expect_agreement({.name = s.name(dtype),
                    .shapes = s.shapes(),
                    .function = [s](const std::vector<Tensor>& x) { return s.run(x); },
                    // Room for another library's sigmoid and tanh at every step.
                    .tolerance = 2e-5 + tolerance(rounded, s.steps * s.batch * s.layers),
                    .dtype = dtype,
                    .device = gpu});
}

}  // namespace whisker::test
