// Elementwise kernels.
#include "core/cuda/ops/elementwise.h"

#include "core/backend/elementwise.h"
#include "core/cuda/ops/cuda_kernels.h"
#include "core/tensor/convert.h"

#include <cstring>

namespace whisker::cuda {
namespace {

class Elementwise final : public ElementwiseKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void fill(double value, const Tensor& y) override {
    uint64_t bits = 0;
    visit(y.dtype(), [&]<class T>() {
      const T element = convert<T>(value);
      std::memcpy(&bits, &element, sizeof element);
    });
    kernels::fill(stream(), bits, size_of(y.dtype()), y.raw(), y.count());
  }

  void cast(const Tensor& x, const Tensor& y) override {
    kernels::cast(stream(), x.dtype(), x.raw(), y.dtype(), y.raw(), y.count());
  }

  void unary(const UnarySpec& spec, const Tensor& x, const Tensor& y) override {
    kernels::unary(stream(), spec, y.dtype(), x.raw(), y.raw(), y.count());
  }

  void binary(BinaryOp op, const BroadcastGeometry& g, const BinaryInputs& in,
              const Tensor& y) override {
    kernels::binary(stream(), op, g, y.dtype(), in.a.raw(), in.b.raw(), y.raw());
  }

  void accumulate(const Tensor& term, const Tensor& sum) override {
    kernels::accumulate(stream(), sum.dtype(), term.raw(), sum.raw(), sum.count());
  }

  void compare(CompareOp op, const BroadcastGeometry& g, const BinaryInputs& in,
               const Tensor& y) override {
    kernels::compare(stream(), op, g, in.a.dtype(), in.a.raw(), in.b.raw(),
                     static_cast<bool*>(y.raw()));
  }

  void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y) override {
    kernels::where(stream(), static_cast<const bool*>(condition.raw()), size_of(y.dtype()), a.raw(),
                   b.raw(), y.raw(), y.count());
  }

  void activation(ActivationSpec f, const Tensor& x, const Tensor& y) override {
    kernels::activation(stream(), f, y.dtype(), x.raw(), y.raw(), y.count());
  }

  void activation_backward(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                           const Tensor& dx) override {
    kernels::activation_backward(stream(), f, dx.dtype(), saved.raw(), dy.raw(), dx.raw(),
                                 dx.count());
  }

  void activation_second(ActivationSpec f, const ActivationSecondInputs& in,
                         const Tensor& out) override {
    kernels::activation_second(stream(), f, out.dtype(), in.saved.raw(), in.dy.raw(), in.v.raw(),
                               out.raw(), out.count());
  }

  void dropout(double rate, const RandomKey& key, const Tensor& x, const Tensor& y) override {
    kernels::dropout(stream(), rate, key, y.dtype(), x.raw(), y.raw(), y.count());
  }
};

}  // namespace

std::shared_ptr<ElementwiseKernels> make_elementwise(CudaDevice& device) {
  return std::make_shared<Elementwise>(device);
}

}  // namespace whisker::cuda
