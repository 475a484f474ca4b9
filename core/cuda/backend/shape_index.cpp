// Moves elements about and picks them by index.
#include "core/cuda/ops/shape_index.h"

#include "core/backend/shape_index.h"
#include "core/cuda/ops/cuda_kernels.h"
#include "core/tensor/convert.h"

#include <cstring>

namespace whisker::cuda {
namespace {

const int64_t* indices(const Tensor& index) {
  return static_cast<const int64_t*>(index.raw());
}

class ShapeIndex final : public ShapeIndexKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void strided_copy(const CopyGeometry& g, bool add, const Tensor& x, const Tensor& y) override {
    if (add) {
      kernels::strided_add(stream(), g, y.dtype(), x.raw(), y.raw());
    } else {
      kernels::strided_copy(stream(), g, size_of(y.dtype()), x.raw(), y.raw());
    }
  }

  void gather(const GatherGeometry& g, const Tensor& x, const Tensor& index,
              const Tensor& y) override {
    kernels::gather(stream(), g, size_of(y.dtype()), x.raw(), indices(index), y.raw(),
                    context_.faults());
  }

  void gather_backward(const GatherGeometry& g, const Tensor& index, const Tensor& dy,
                       const Tensor& dx) override {
    kernels::gather_backward(stream(), g, dx.dtype(), indices(index), dy.raw(), dx.raw());
  }

  void embedding(const Tensor& table, const Tensor& index, const Tensor& y) override {
    kernels::embedding(stream(), size_of(y.dtype()), table.raw(), table.extent(0), table.extent(1),
                       indices(index), index.count(), y.raw(), context_.faults());
  }

  void embedding_backward(const Tensor& index, const Tensor& dy, const Tensor& dtable) override {
    kernels::embedding_backward(stream(), dtable.dtype(), indices(index), index.count(),
                                dtable.extent(0), dtable.extent(1), dy.raw(), dtable.raw());
  }

  void one_hot(const Tensor& index, const Tensor& y) override {
    uint64_t one = 0;
    visit(y.dtype(), [&]<class T>() {
      const T element = convert<T>(1.0);
      std::memcpy(&one, &element, sizeof element);
    });
    kernels::one_hot(stream(), size_of(y.dtype()), one, indices(index), index.count(), y.extent(-1),
                     y.raw(), context_.faults());
  }
};

}  // namespace

std::shared_ptr<ShapeIndexKernels> make_shape_index(CudaDevice& device) {
  return std::make_shared<ShapeIndex>(device);
}

}  // namespace whisker::cuda
