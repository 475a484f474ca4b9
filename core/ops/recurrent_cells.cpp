// The cells' equations, and the loop over steps, directions and layers around them.
#include "core/ops/recurrent_cells.h"

#include "core/backend/recurrent_operands.h"
#include "core/error.h"

#include <array>
#include <utility>
#include <vector>

namespace whisker {

RNNCell::RNNCell(RecurrentParameters parameters, Activation f)
    : parameters_(std::move(parameters)), f_(f) {
  if (f != Activation::tanh && f != Activation::relu) {
    fail(ErrorKind::usage, "RNNCell: expected tanh or relu, got {}.", name_of(f));
  }
}

RecurrentState RNNCell::operator()(const Tensor& x, const RecurrentState& before) const {
  const RecurrentParameters& p = parameters_;
  const Tensor z = linear(x, p.w_ih, p.b_ih) + linear(before.h, p.w_hh, p.b_hh);  // (N, hidden)
  return {.h = activation(z, {.kind = f_})};
}

RecurrentState LSTMCell::operator()(const Tensor& x, const RecurrentState& before) const {
  const RecurrentParameters& p = parameters_;
  const Tensor z = linear(x, p.w_ih, p.b_ih) + linear(before.h, p.w_hh, p.b_hh);  // (N, 4 hidden)
  const int64_t hidden = z.extent(1) / 4;
  const auto gate = split(z, std::array{hidden, hidden, hidden, hidden}, 1);  // i f g o
  const Tensor c = sigmoid(gate[1]) * before.c + sigmoid(gate[0]) * tanh(gate[2]);
  const Tensor m = sigmoid(gate[3]) * tanh(c);
  return {.h = p.w_hr ? linear(m, p.w_hr, {}) : m, .c = c};
}

RecurrentState GRUCell::operator()(const Tensor& x, const RecurrentState& before) const {
  const RecurrentParameters& p = parameters_;
  const Tensor from_input = linear(x, p.w_ih, p.b_ih);         // (N, 3 hidden)
  const Tensor from_state = linear(before.h, p.w_hh, p.b_hh);  // (N, 3 hidden)
  const std::array sizes{before.h.extent(1), before.h.extent(1), before.h.extent(1)};
  const auto input = split(from_input, sizes, 1);  // r z n
  const auto state = split(from_state, sizes, 1);
  const Tensor r = sigmoid(input[0] + state[0]);
  const Tensor z = sigmoid(input[1] + state[1]);
  const Tensor n = tanh(input[2] + r * state[2]);
  return {.h = n + z * (before.h - n)};
}

namespace {

RecurrentState step(RecurrentKind kind, const RecurrentParameters& p, const Tensor& x,
                    const RecurrentState& before) {
  switch (kind) {
    case RecurrentKind::lstm:
      return LSTMCell(p)(x, before);
    case RecurrentKind::gru:
      return GRUCell(p)(x, before);
    case RecurrentKind::rnn_tanh:
      return RNNCell(p, Activation::tanh)(x, before);
    case RecurrentKind::rnn_relu:
      break;
  }
  return RNNCell(p, Activation::relu)(x, before);
}

// (N, extent) of one cell from (cells, N, extent), or zeros.
Tensor initial_of(const Tensor& states, int64_t cell, int64_t batch, int64_t extent,
                  const Tensor& x) {
  if (!states) return zeros({batch, extent}, x.options());
  return slice(states, 0, cell, cell + 1).reshape({batch, extent});
}

// x[t] as (N, features).
Tensor at_step(const Tensor& x, int64_t t) {
  return slice(x, 0, t, t + 1).reshape({x.extent(1), x.extent(2)});
}

// One cell over all steps, forwards or backwards: its results, one per step, and its last state.
class CellLoop {
 public:
  CellLoop(const RecurrentGeometry& g, const RecurrentParameters& p, const Tensor& lengths)
      : g_(g), p_(p), lengths_(lengths) {}

  RecurrentState run(const Tensor& x, bool backwards, RecurrentState state,
                     std::vector<Tensor>& results) const {
    results.resize(static_cast<size_t>(g_.steps));
    for (int64_t i = 0; i < g_.steps; ++i) {
      const int64_t t = backwards ? g_.steps - 1 - i : i;
      Tensor& result = results[static_cast<size_t>(t)];  // (N, output)
      const Tensor input = at_step(x, t);
      if (!lengths_) {
        state = step(g_.kind, p_, input, state);
        result = state.h;
        continue;
      }
      // What is behind a sequence's end becomes zero before anything is computed from it.
      const Tensor t_of_all = full({1}, static_cast<double>(t), lengths_.options());
      const Tensor valid = greater(lengths_, t_of_all).reshape({g_.batch, 1});
      const Tensor nothing = zeros({1}, x.options());
      const RecurrentState next = step(g_.kind, p_, where(valid, input, nothing), state);
      state = {.h = where(valid, next.h, state.h),
               .c = next.c ? where(valid, next.c, state.c) : Tensor()};
      result = where(valid, state.h, nothing);
    }
    return state;
  }

 private:
  const RecurrentGeometry& g_;
  const RecurrentParameters& p_;
  const Tensor& lengths_;  // i64 (N) or undefined
};

Tensor stacked(std::vector<Tensor> tensors) {
  for (Tensor& t : tensors) t = t.reshape({1, t.extent(0), t.extent(1)});
  return concat(tensors, 0);
}

}  // namespace

RecurrentResult recurrent_by_cells(const Tensor& x, std::span<const RecurrentParameters> parameters,
                                   const RecurrentOptions& options) {
  const RecurrentGeometry g = recurrent_geometry(x, parameters, options);
  std::vector<Tensor> last_h, last_c;
  Tensor y = x;
  for (int64_t layer = 0; layer < g.layers; ++layer) {
    if (layer > 0) y = dropout(y, g.dropout, recurrent_mask_key(options.key, layer - 1));
    std::vector<Tensor> sides;
    for (int64_t direction = 0; direction < g.directions; ++direction) {
      const int64_t cell = layer * g.directions + direction;
      RecurrentState state{.h = initial_of(options.initial.h, cell, g.batch, g.output(), x)};
      if (g.is_lstm()) state.c = initial_of(options.initial.c, cell, g.batch, g.hidden, x);
      std::vector<Tensor> results;
      state = CellLoop(g, parameters[static_cast<size_t>(cell)], options.lengths)
                  .run(y, direction == 1, state, results);
      sides.push_back(stacked(std::move(results)));  // (T, N, output)
      last_h.push_back(state.h);
      if (g.is_lstm()) last_c.push_back(state.c);
    }
    y = concat(sides, -1);
  }
  return {.y = y, .last = {.h = stacked(last_h), .c = g.is_lstm() ? stacked(last_c) : Tensor()}};
}

}  // namespace whisker
