// Recurrent layers over sequences (T, N, features): simple_rnn, lstm and gru, several deep, in one
// or both directions. docs/internals/recurrent.md has the equations and the names of the
// parameters.
#pragma once

#include "core/backend/geometry.h"
#include "layers/module.h"

#include <vector>

namespace whisker {

/// Parameters as PyTorch's: weight_ih_l0 (gates units, inputs), weight_hh_l0, bias_ih_l0,
/// bias_hh_l0 and weight_hr_l0 (projection, units); those of the second direction end in _reverse.
class Recurrent final : public Module {
 public:
  struct Options {
    RecurrentKind kind = RecurrentKind::lstm;
    int64_t features = 0;
    int64_t units = 0;
    int64_t layers = 1;
    bool bidirectional = false;
    double dropout = 0;             ///< between layers, in training
    bool return_sequences = false;  ///< every step, else the last valid one of each direction
    int64_t projection = 0;         ///< of an lstm's state; 0: none
    bool bias = true;
    bool batch_first = false;  ///< x, and y with return_sequences, are (N, T, ...)
    /// Keras' initial values: Glorot-uniform, orthogonal over the steps, zero biases but the forget
    /// gate's 1. Else PyTorch's: all uniform within 1 / sqrt(units).
    bool keras_start = false;
  };
  /// Throws usage for extents below 1 and for a projection that is not below the units or not of
  /// an lstm.
  explicit Recurrent(const Options& options);

  /// x (T, N, features) -> (T, N, directions output) with return_sequences, else (N, directions
  /// output). Reads pass.lengths, takes up and leaves pass.states.
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override;
  std::string describe() const override;
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;
  int add_to(MemoryPlan& plan, int x) const override;

  const Options& options() const { return options_; }
  /// Whether forward() goes through the cells of core/ops/recurrent_cells.h, operator by operator:
  /// slower, for who looks at the tape or differentiates twice.
  void set_by_cells(bool by_cells) { by_cells_ = by_cells; }

 private:
  struct Cell {
    std::shared_ptr<Parameter> w_ih, w_hh, b_ih, b_hh, w_hr;
  };
  int64_t directions() const { return options_.bidirectional ? 2 : 1; }
  /// Of a pass over x, without lengths.
  RecurrentGeometry geometry(const Shape& x) const;
  int64_t gates() const;
  int64_t output() const { return options_.projection > 0 ? options_.projection : options_.units; }
  int64_t inputs(int64_t layer) const {
    return layer == 0 ? options_.features : directions() * output();
  }
  Cell make_cell(int64_t layer, int64_t direction);
  RecurrentState carried(const Pass& pass, int64_t batch) const;
  void keep_as_a_gpu_does(OperatorCost& cost, const Shape& x) const;

  Options options_;
  std::vector<Cell> cells_;
  bool by_cells_ = false;
};

}  // namespace whisker
