// The operands of recurrent layers, of operators and of kernels. A cell is one layer in one
// direction (see RecurrentGeometry).
#pragma once

#include "core/backend/geometry.h"
#include "core/tensor/tensor.h"

#include <type_traits>
#include <vector>

namespace whisker {

/// The parameters of one cell, or their gradients. Gates are blocks of `hidden` rows in PyTorch's
/// order: i f g o of an lstm, r z n of a gru. A template on the handle of an operand, for kernels.
template <class Handle>
struct BasicRecurrentParameters {
  Handle w_ih = {};  ///< (gates hidden, inputs)
  Handle w_hh = {};  ///< (gates hidden, output)
  Handle b_ih = {};  ///< (gates hidden); both biases or neither
  Handle b_hh = {};  ///< (gates hidden)
  Handle w_hr = {};  ///< (projection, hidden); an lstm with a projection has it

  auto map(auto&& fn) const {
    return BasicRecurrentParameters<std::decay_t<decltype(fn(w_ih))>>{fn(w_ih), fn(w_hh), fn(b_ih),
                                                                      fn(b_hh), fn(w_hr)};
  }
};
using RecurrentParameters = BasicRecurrentParameters<Tensor>;

/// One state per cell and sequence, or its gradient.
struct RecurrentState {
  Tensor h = {};  ///< (cells, N, output)
  Tensor c = {};  ///< (cells, N, hidden), of an lstm
};

/// What a forward pass reads.
struct RecurrentInputs {
  Tensor x = {};                ///< (T, N, features)
  RecurrentState initial = {};  ///< each undefined: zeros
  Tensor lengths = {};          ///< i64 (N) in [0, T], undefined: all T; later steps are never read
  std::vector<RecurrentParameters> parameters = {};  ///< (cells)
  RandomKey key = {};  ///< of the masks between layers: see recurrent_mask_key
};

/// What it leaves.
struct RecurrentOutputs {
  Tensor y = {};             ///< (T, N, directions output); zero after a sequence's end
  RecurrentState last = {};  ///< after each sequence's last step (backwards: its first)
  Tensor reserve = {};       ///< u8, for backward; undefined when none will follow
};

/// A backward pass: gradients that arrive (undefined: zeros) and that are computed when defined.
struct RecurrentGradients {
  Tensor dy = {};             ///< never read after a sequence's end
  RecurrentState dlast = {};  ///< of RecurrentOutputs::last
  Tensor dx = {};             ///< zero after a sequence's end
  RecurrentState dinitial = {};
  std::vector<RecurrentParameters> dparameters = {};  ///< (cells)
};

/// The mask on the result of `layer`, which the next one reads: that of dropout() with this key
/// over (T, N, directions output).
inline RandomKey recurrent_mask_key(RandomKey key, int64_t layer) {
  key.stream += static_cast<uint64_t>(layer);
  return key;
}

}  // namespace whisker
