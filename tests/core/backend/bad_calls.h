// A wrong call of an operator and the exact error it must end in, and the lists of such calls, one
// function per family.
#pragma once

#include "core/ops/ops.h"

#include <functional>
#include <ostream>
#include <vector>

namespace whisker::test {

struct BadCall {
  const char* name;
  /// Makes tensors with `o` and calls an operator wrongly.
  std::function<void(TensorOptions o)> call;
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

inline TensorOptions i64(TensorOptions o) {
  return {.dtype = DType::i64, .device = o.device};
}

}  // namespace whisker::test
