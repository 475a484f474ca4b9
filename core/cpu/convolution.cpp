// Convolution with bias, residual and activation, and its gradients: oneDNN in the layouts it
// likes, else gemms over plain memory. bf16 is the CPU's own where it has that, else it goes
// through f32.
#include "core/backend/convolution.h"

#include "core/cpu/cpu_kernels.h"
#include "core/cpu/kernels/conv2d_gemm.h"
#include "core/cpu/support/rows.h"

#if WHISKER_ONEDNN
#include "core/cpu/kernels/conv2d_dnnl.h"
#include "core/cpu/onednn/dnnl_api.h"
#endif

namespace whisker::cpu {
namespace {

class Convolution final : public ConvolutionKernels, CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  void conv2d(const Conv2dGeometry& g, const AffineInputs& in, const Tensor& y) override {
    const bool wide = in_f32("conv2d", y);
#if WHISKER_ONEDNN
    if ((wide || native()) && dnnl_conv2d(*device_.conv2d_algorithms, allocator_, g, in, y)) return;
#endif
    if (!wide) return via_f32([&](ViaF32& t) { conv2d(as_f32(g), t.in(in), t.out(y)); });
    conv2d_gemm(allocator_, g, ConvolutionPass::forward, f32(in.x), f32(in.w), f32(y));
    const bool adds = in.residual.defined();
    bias_activation(f32(y), f32(y), g.n * g.h_out * g.w_out, g.c_out, g.bias ? f32(in.b) : nullptr,
                    adds ? ActivationSpec() : g.activation);
    if (adds) residual_activation(f32(in.residual), f32(y), y.count(), g.activation);
  }

  KernelWorkspace conv2d_workspace([[maybe_unused]] const Conv2dGeometry& g,
                                   [[maybe_unused]] bool dx, [[maybe_unused]] bool dw) override {
#if WHISKER_ONEDNN
    if (g.dtype == DType::f32 || native()) {
      return dnnl_conv2d_workspace(*device_.conv2d_algorithms, allocator_, g, dx, dw);
    }
#endif
    return {};
  }

  void conv2d_backward(const Conv2dGeometry& g, const AffineSaved& saved, const Tensor& dy,
                       const AffineGrads& out) override {
    const bool wide = in_f32("conv2d", dy);
#if WHISKER_ONEDNN
    if ((wide || native()) &&
        dnnl_conv2d_backward(*device_.conv2d_algorithms, allocator_, g, saved, dy, out)) {
      return;
    }
#endif
    if (!wide) {
      return via_f32(
          [&](ViaF32& t) { conv2d_backward(as_f32(g), t.in(saved), t.in(dy), t.out(out)); });
    }
    const int64_t rows = g.n * g.h_out * g.w_out;
    const bool active = g.activation.kind != Activation::none;
    const Scratch<float> gradient = scratch<float>(active ? rows * g.c_out : 0);
    float* dz = f32(dy);  // (N, h_out, w_out, c_out), before the activation
    if (active) {
      activation_gradient(g.activation, f32(saved.y), dz, gradient.data(), rows * g.c_out);
      dz = gradient.data();
    }
    if (out.db.defined()) column_sums(allocator_, dz, rows, g.c_out, f32(out.db));
    const auto run = [&](ConvolutionPass pass, const Tensor& x, const Tensor& w) {
      conv2d_gemm(allocator_, g, pass, f32(x), f32(w), dz);
    };
    if (out.dw.defined()) run(ConvolutionPass::backward_weights, saved.x, out.dw);
    if (out.dx.defined()) run(ConvolutionPass::backward_input, out.dx, saved.w);
  }

 private:
#if WHISKER_ONEDNN
  bool native() const {
    return options_.native_bf16 && dnnl_native_bf16();
  }
#endif
};

}  // namespace

std::shared_ptr<ConvolutionKernels> make_convolution(CpuDevice& device) {
  return std::make_shared<Convolution>(device);
}

}  // namespace whisker::cpu
