// The operator of recurrent layers: see core/ops/ops.h for what holds of all operators.
#pragma once

#include "core/backend/recurrent_operands.h"

#include <span>

namespace whisker {

struct RecurrentOptions {
  RecurrentKind kind = RecurrentKind::lstm;
  bool bidirectional = false;
  RecurrentState initial = {};  ///< each undefined: zeros
  Tensor lengths = {};          ///< i64 (N) in [0, T]: steps of each sequence; undefined: all T
  double dropout = 0;           ///< on the results of all layers but the last
  RandomKey key = {};           ///< of its masks: see recurrent_mask_key
};
struct RecurrentResult {
  Tensor y;             ///< (T, N, directions output); zero after a sequence's end
  RecurrentState last;  ///< the state after each sequence's last step (backwards: its first)
};
/// x (T, N, features) through recurrent layers (Elman 1990; Hochreiter and Schmidhuber 1997; Cho et
/// al. 2014, reset after the product). `parameters` holds the cells: layer by layer, forwards
/// before backwards; extents and number of layers follow from them. Neither results nor gradients
/// depend on what x holds after a sequence's end. core/ops/recurrent_cells.h has the same in plain
/// operators.
RecurrentResult recurrent(const Tensor& x, std::span<const RecurrentParameters> parameters,
                          const RecurrentOptions& options = {});
RecurrentGeometry recurrent_geometry(const Tensor& x,
                                     std::span<const RecurrentParameters> parameters,
                                     const RecurrentOptions& options);

}  // namespace whisker
