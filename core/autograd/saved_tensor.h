// Tensors that an operator keeps for its backward pass.
#pragma once

#include "core/tensor/tensor.h"

#include <cstdint>

namespace whisker {

class Gradients;

/// A tensor kept for backward: remembers the version it was saved at, and throws usage, naming the
/// op, when it was changed in place since. An op's own output is kept off the tape (a cycle
/// otherwise) and re-attached while its node runs.
class Saved {
 public:
  Saved() = default;
  Tensor operator()(const Gradients& gradients) const;
  bool defined() const { return tensor_.defined(); }

 private:
  friend Saved save(const Tensor& tensor);
  friend Saved save_output(const Tensor& tensor, uint32_t output);
  Tensor tensor_;
  uint64_t version_ = 0;
  int32_t own_output_ = -1;
};

Saved save(const Tensor& tensor);
/// save(), or an empty Saved when no gradient needs the tensor.
inline Saved save_if(bool wanted, const Tensor& tensor) {
  return wanted ? save(tensor) : Saved();
}
Saved save_output(const Tensor& tensor, uint32_t output = 0);

}  // namespace whisker
