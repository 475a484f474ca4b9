// Gemms and the dense layer on cuBLASLt; small layers have kernels of their own. Without an
// activation the epilogue of the weight gradient's gemm computes the bias gradient.
#include "core/backend/gemm.h"

#include "core/cuda/gemm/gemm_algorithms.h"
#include "core/cuda/gemm/small_linear.h"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/ops/output_gradient.h"

#include <algorithm>
#include <optional>

namespace whisker::cuda {
namespace {

// More matrices in one call than the libraries are tested with go in several.
constexpr int64_t most_batches = 65535;

char* advance(const Tensor& tensor, int64_t elements) {
  return static_cast<char*>(tensor.raw()) +
         elements * static_cast<int64_t>(size_of(tensor.dtype()));
}

class Gemms final : public GemmKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b, const Tensor& y) override {
    context_.enter();
    for (int64_t first = 0; first < g.batch; first += most_batches) {
      const GemmRequest request{.dtype = y.dtype(),
                                .batch = std::min(g.batch - first, most_batches),
                                .m = g.m,
                                .n = g.n,
                                .k = g.k,
                                .transpose_a = g.transpose_a,
                                .transpose_b = g.transpose_b,
                                .a_stride = g.a_batch_stride,
                                .b_stride = g.b_batch_stride,
                                .tf32 = tf32()};
      gemms_.run(request, {.a = advance(a, first * g.a_batch_stride),
                           .b = advance(b, first * g.b_batch_stride),
                           .y = advance(y, first * g.m * g.n)});
    }
  }

  void linear(const LinearGeometry& g, const AffineInputs& in, const Tensor& y) override {
    context_.enter();
    const void* const b = g.bias ? in.b.raw() : nullptr;
    if (is_small(g)) {
      return small_linear(context_, g, in.x.raw(), in.w.raw(), b, y.raw());
    }
    linear_gemm(gemms_, g, tf32(), {.x = in.x.raw(), .w = in.w.raw(), .bias = b, .y = y.raw()},
                context_.stream());
  }

  void linear_backward(const LinearGeometry& g, const AffineSaved& saved, const Tensor& dy,
                       const AffineGrads& out) override {
    context_.enter();
    if (has_small_gradients(g)) {
      return small_linear_backward(context_, g, pointer(saved.x), pointer(saved.w),
                                   pointer(saved.y), dy.raw(), pointer(out.dx), pointer(out.dw),
                                   pointer(out.db));
    }
    // dz (rows, out) = f'(z) dy; dy itself without an activation.
    const bool active = g.activation.kind != Activation::none;
    const void* dz = dy.raw();
    std::optional<Scratch> scratch;
    // The bias gradient is in the epilogue where no activation lies between dy and the gemm.
    const bool together = !active && out.dw.defined() && out.db.defined();
    if (!together) {
      if (active && (out.dx.defined() || out.dw.defined())) {
        dz = scratch.emplace(allocator_, dy.bytes()).data();
      }
      output_gradient({.rows = g.rows, .channels = g.out, .dtype = g.dtype}, g.activation,
                      active ? saved.y.raw() : nullptr, dy.raw(),
                      scratch ? scratch->data() : nullptr, pointer(out.db), context_, allocator_);
    }
    if (out.dw.defined()) {  // dw (out,in) = dz^T (rows,out) x (rows,in)
      gemms_.run({.dtype = g.dtype,
                  .m = g.out,
                  .n = g.in,
                  .k = g.rows,
                  .transpose_a = true,
                  .epilogue = together ? GemmEpilogue::row_sums : GemmEpilogue::none,
                  .tf32 = tf32()},
                 {.a = dz,
                  .b = saved.x.raw(),
                  .y = out.dw.raw(),
                  .bias = together ? out.db.raw() : nullptr});
    }
    if (out.dx.defined()) {
      gemms_.run({.dtype = g.dtype, .m = g.rows, .n = g.in, .k = g.out, .tf32 = tf32()},
                 {.a = dz, .b = saved.w.raw(), .y = out.dx.raw()});
    }
  }

 private:
  GemmAlgorithms& gemms_ = *device_.gemms;
};

}  // namespace

std::shared_ptr<GemmKernels> make_gemm(CudaDevice& device) {
  return std::make_shared<Gemms>(device);
}

}  // namespace whisker::cuda
