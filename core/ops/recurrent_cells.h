// Recurrent cells in plain recorded operators: what the recurrent operator means, to be read, to be
// taken apart, and to be differentiated twice. recurrent() is the fast way to the same numbers.
#pragma once

#include "core/ops/ops.h"
#include "core/ops/recurrent.h"

namespace whisker {

/// One step of a simple recurrent network (Elman 1990): h' = f(W_ih x + b_ih + W_hh h + b_hh).
class RNNCell {
 public:
  /// f: tanh or relu.
  explicit RNNCell(RecurrentParameters parameters, Activation f = Activation::tanh);
  /// x (N, inputs) and the state h (N, hidden) before it -> the state after it.
  RecurrentState operator()(const Tensor& x, const RecurrentState& before) const;

 private:
  RecurrentParameters parameters_;
  Activation f_;
};

/// One step of long short-term memory (Hochreiter and Schmidhuber 1997; forget gate: Gers,
/// Schmidhuber and Cummins 2000), with a projection of its state when w_hr is defined (Sak, Senior
/// and Beaufays 2014).
class LSTMCell {
 public:
  explicit LSTMCell(RecurrentParameters parameters) : parameters_(std::move(parameters)) {}
  /// x (N, inputs) and the state h (N, output), c (N, hidden) before it -> the state after it.
  RecurrentState operator()(const Tensor& x, const RecurrentState& before) const;

 private:
  RecurrentParameters parameters_;
};

/// One step of a gated recurrent unit (Cho et al. 2014), its reset gate after the product.
class GRUCell {
 public:
  explicit GRUCell(RecurrentParameters parameters) : parameters_(std::move(parameters)) {}
  /// x (N, inputs) and the state h (N, hidden) before it -> the state after it.
  RecurrentState operator()(const Tensor& x, const RecurrentState& before) const;

 private:
  RecurrentParameters parameters_;
};

/// recurrent() step by step through the cells: slower, and differentiable twice.
RecurrentResult recurrent_by_cells(const Tensor& x, std::span<const RecurrentParameters> parameters,
                                   const RecurrentOptions& options = {});

}  // namespace whisker
