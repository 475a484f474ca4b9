// Tensors and numbers as kernels take them. A tensor's pointer is null where it is undefined.
#pragma once

#include "core/cuda/device_code/channels.h"
#include "core/error.h"
#include "core/tensor/convert.h"
#include "core/tensor/tensor.h"

#include <cstring>

namespace whisker::cuda {

template <class T = void>
T* pointer(const Tensor& x) {
  return x.defined() ? static_cast<T*>(x.raw()) : nullptr;
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

/// `value` as an element of `dtype`, in the low bytes.
inline uint64_t bits_of(double value, DType dtype) {
  uint64_t bits = 0;
  visit(dtype, [&]<class T>() {
    const T element = convert<T>(value);
    std::memcpy(&bits, &element, sizeof element);
  });
  return bits;
}

}  // namespace whisker::cuda
