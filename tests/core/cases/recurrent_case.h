// One set of options of a recurrent layer, for the definitions (ops/op_table/recurrent_rows.cpp)
// and for the GPU's algorithms (cuda/recurrent): the shapes of its operands, and the layer.
#pragma once

#include "core/ops/ops.h"
#include "core/ops/recurrent_cells.h"

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace whisker::test {

struct RecurrentCase {
  RecurrentKind kind = RecurrentKind::lstm;
  int64_t steps = 17, batch = 8, features = 24, hidden = 40;
  int64_t projection = 0, layers = 1, directions = 1;
  bool bias = true, initial = false;
  std::vector<int64_t> lengths = {};
  double dropout = 0;

  bool is_lstm() const { return kind == RecurrentKind::lstm; }
  int64_t gates() const { return is_lstm() ? 4 : kind == RecurrentKind::gru ? 3 : 1; }
  int64_t output() const { return projection > 0 ? projection : hidden; }
  int64_t inputs(int64_t layer) const { return layer == 0 ? features : directions * output(); }
  int64_t cells() const { return layers * directions; }
  static constexpr RandomKey key{.seed = 5, .stream = 6, .step = 7};
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
      all.push_back({gates() * hidden, inputs(cell / directions)});
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

  /// (N) where sequences have lengths of their own, else undefined.
  Tensor own_lengths(Device device) const {
    if (lengths.empty()) return {};
    return from_vector(std::vector<double>(lengths.begin(), lengths.end()), {batch},
                       {.dtype = DType::i64, .device = device});
  }

  using Operator = RecurrentResult (*)(const Tensor&, std::span<const RecurrentParameters>,
                                       const RecurrentOptions&);
  /// What `op` makes of operands with shapes(); without `valid` over all steps.
  RecurrentResult compute(Operator op, const std::vector<Tensor>& x, const Tensor& valid) const {
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
                             .lengths = valid,
                             .dropout = dropout,
                             .key = key};
    if (initial) options.initial.h = x[next++];
    if (initial && is_lstm()) options.initial.c = x[next++];
    return op(x[0], parameters, options);
  }

  /// y and the last states, one after the other.
  Tensor run(Operator op, const std::vector<Tensor>& x) const {
    const RecurrentResult result = compute(op, x, own_lengths(x[0].device()));
    std::vector<Tensor> parts = {result.y.reshape({-1}), result.last.h.reshape({-1})};
    if (is_lstm()) parts.push_back(result.last.c.reshape({-1}));
    return concat(parts, 0);
  }
};

}  // namespace whisker::test
