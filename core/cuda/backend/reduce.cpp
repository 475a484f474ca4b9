// The backend's reductions over axes.
#include "core/cuda/kernels/reduce.h"

#include "core/cuda/backend/cuda_backend.h"

namespace whisker::cuda {

void CudaBackend::reduce(ReduceOp op, const ReduceGeometry& g, const Tensor& x, const Tensor& y) {
  kernels::reduce(stream(), allocator_, op, g, x.dtype(), x.raw(), y.raw());
}

void CudaBackend::argmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) {
  kernels::argmax(stream(), g, x.dtype(), x.raw(), static_cast<int64_t*>(y.raw()));
}

}  // namespace whisker::cuda
