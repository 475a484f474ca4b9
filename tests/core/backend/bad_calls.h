// A wrong call of an operator and the exact error it must end in, and the lists of such calls, one
// function per family.
#pragma once

#include "core/ops/ops.h"

#include <functional>
#include <ostream>
#include <vector>

namespace whisker::test {

/// o(2, 3) makes an operand of zeros, (2,3).
struct Operands : TensorOptions {
  template <class... Extents>
  Tensor operator()(Extents... extents) const {
    return zeros({static_cast<int64_t>(extents)...}, *this);
  }
};

struct BadCall {
  const char* name;
  /// Calls an operator wrongly, with operands that `o` makes or that are made like those.
  std::function<void(Operands o)> call;
  /// The whole message.
  const char* message;
  ErrorKind kind = ErrorKind::usage;
};
inline void PrintTo(const BadCall& call, std::ostream* out) {
  *out << call.name;
}

std::vector<BadCall> bad_arithmetic();
std::vector<BadCall> bad_reductions_and_shapes();
std::vector<BadCall> bad_gemms();
std::vector<BadCall> bad_windows();
std::vector<BadCall> bad_recurrent_layers();
std::vector<BadCall> bad_norms_and_losses();

inline Operands i64(TensorOptions o) {
  return {{.dtype = DType::i64, .device = o.device}};
}

}  // namespace whisker::test
