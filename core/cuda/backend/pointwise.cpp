// The backend's pointwise methods.
#include "core/cuda/kernels/pointwise.h"

#include "core/cuda/backend/cuda_backend.h"
#include "core/tensor/convert.h"

#include <cstring>

namespace whisker::cuda {

void CudaBackend::fill(double value, const Tensor& y) {
  uint64_t bits = 0;
  visit(y.dtype(), [&]<class T>() {
    const T element = convert<T>(value);
    std::memcpy(&bits, &element, sizeof element);
  });
  kernels::fill(stream(), bits, size_of(y.dtype()), y.raw(), y.count());
}

void CudaBackend::cast(const Tensor& x, const Tensor& y) {
  kernels::cast(stream(), x.dtype(), x.raw(), y.dtype(), y.raw(), y.count());
}

void CudaBackend::unary(const UnarySpec& spec, const Tensor& x, const Tensor& y) {
  kernels::unary(stream(), spec, y.dtype(), x.raw(), y.raw(), y.count());
}

void CudaBackend::binary(BinaryOp op, const BroadcastGeometry& g, const Tensor& a, const Tensor& b,
                         const Tensor& y) {
  kernels::binary(stream(), op, g, y.dtype(), a.raw(), b.raw(), y.raw());
}

void CudaBackend::accumulate(const Tensor& term, const Tensor& sum) {
  kernels::accumulate(stream(), sum.dtype(), term.raw(), sum.raw(), sum.count());
}

void CudaBackend::compare(CompareOp op, const BroadcastGeometry& g, const Tensor& a,
                          const Tensor& b, const Tensor& y) {
  kernels::compare(stream(), op, g, a.dtype(), a.raw(), b.raw(), static_cast<bool*>(y.raw()));
}

void CudaBackend::where(const Tensor& condition, const Tensor& a, const Tensor& b,
                        const Tensor& y) {
  kernels::where(stream(), static_cast<const bool*>(condition.raw()), size_of(y.dtype()), a.raw(),
                 b.raw(), y.raw(), y.count());
}

void CudaBackend::activation(ActivationSpec f, const Tensor& x, const Tensor& y) {
  kernels::activation(stream(), f, y.dtype(), x.raw(), y.raw(), y.count());
}

void CudaBackend::activation_backward(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                                      const Tensor& dx) {
  kernels::activation_backward(stream(), f, dx.dtype(), saved.raw(), dy.raw(), dx.raw(),
                               dx.count());
}

void CudaBackend::activation_second(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                                    const Tensor& v, const Tensor& out) {
  kernels::activation_second(stream(), f, out.dtype(), saved.raw(), dy.raw(), v.raw(), out.raw(),
                             out.count());
}

void CudaBackend::dropout(double rate, const RandomKey& key, const Tensor& x, const Tensor& y) {
  kernels::dropout(stream(), rate, key, y.dtype(), x.raw(), y.raw(), y.count());
}

}  // namespace whisker::cuda
