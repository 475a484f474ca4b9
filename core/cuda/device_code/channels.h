// The handle of an operand in device code.
#pragma once

#include "core/tensor/dtype_name.h"

namespace whisker::cuda {

/// The memory of a tensor, or null. Operand structs that are templates on the handle
/// (core/backend/normalization.h) hold it in kernels.
struct Operand {
  void* data = nullptr;
  DType dtype = DType::f32;

  template <class T>
  constexpr T* as() const {
    return static_cast<T*>(data);
  }
};
/// A vector with one element per channel, f32, bf16 or f16 as its dtype says: gamma, beta and their
/// gradients may be f32 beside 16-bit activations.
using Channels = Operand;

}  // namespace whisker::cuda
