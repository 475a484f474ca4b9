// The pointers of tensors for launchers; null where undefined.
#pragma once

#include "core/cuda/device_code/channels.h"
#include "core/error.h"
#include "core/tensor/tensor.h"

namespace whisker::cuda {

inline void* pointer(const Tensor& x) {
  return x.defined() ? x.raw() : nullptr;
}
/// Throws internal where x is not f32.
inline float* f32(const Tensor& x) {
  if (x.defined() && x.dtype() != DType::f32) {
    fail(ErrorKind::internal, "cuda: a kernel that reads f32 was handed {}.", x.dtype());
  }
  return static_cast<float*>(pointer(x));
}
inline Operand operand(const Tensor& x) {
  return x.defined() ? Operand{x.raw(), x.dtype()} : Operand{};
}

}  // namespace whisker::cuda
