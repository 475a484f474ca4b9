// Convolution with bias, residual and activation, and its gradients: oneDNN, else gemms over plain
// memory. bf16 is the CPU's own where it has that, else it goes through f32.
//
// With oneDNN activations are blocked on both sides, except images of one or three channels, which
// its first-layer kernels read as planes. Results stay blocked in their storage; operands are not
// converted in place. Weights are reordered in every call, unless they are constant: forward and
// backward need different orders, each once per step, so a cache would save nothing in training,
// and writes through data() have no version.
#include "core/backend/convolution.h"

#include "core/cpu/cpu_kernels.h"
#include "core/cpu/kernels/conv2d_gemm.h"
#include "core/cpu/support/rows.h"

#if WHISKER_ONEDNN
#include "core/cpu/kernels/batch_norm.h"
#include "core/cpu/kernels/depthwise.h"
#include "core/cpu/layout/blocked_layout.h"
#include "core/cpu/onednn/conv2d_algorithms.h"
#include "core/cpu/onednn/dnnl_api.h"
#include "core/cpu/support/element.h"
#endif

#include <algorithm>

namespace whisker::cpu {
namespace {

#if WHISKER_ONEDNN
void* memory(const Tensor& x) {
  return x.defined() ? x.raw() : nullptr;
}

template <class T>
float largest(const Tensor& x) {
  return largest_magnitude(static_cast<const T*>(x.raw()), x.count());
}

/// One call through oneDNN. forward() and backward() compute everything, or return false: not
/// supported.
class Conv2dDnnl {
 public:
  Conv2dDnnl(Conv2dAlgorithms& algorithms, Allocator& allocator, const Conv2dGeometry& g)
      : algorithms_(algorithms), allocator_(allocator), g_(g) {
    const int64_t block = dnnl_channel_block();
    x_ = {.n = g.n, .positions = g.h * g.w, .channels = g.c};
    y_ = {.n = g.n, .positions = g.h_out * g.w_out, .channels = g.c_out};
    possible_ = block > 0 && x_.count() > 0 && y_.count() > 0;
    if (!possible_) return;
    if (g.groups == 1 && (g.c == 1 || g.c == 3)) {
      x_.layout = Layout::planar;
    } else {
      x_ = x_.blocked(block);
    }
    y_ = y_.blocked(block);
    // Padding channels have to stay zero.
    possible_ = keeps_zero(g.activation.kind) || g.c_out % block == 0;
  }

  KernelWorkspace workspace(bool dx, bool dw) const {
    if (!possible_) return {};
    const auto width = static_cast<int64_t>(size_of(g_.dtype));
    const auto scratch = [&](ConvolutionPass pass) {
      const bool forward = pass == ConvolutionPass::forward;
      return algorithms_.scratch_bytes(request(pass, forward && g_.bias, forward));
    };
    // The planes of a colour image are a copy.
    const int64_t planes = x_.layout == Layout::planar && g_.c > 1 ? x_.count() * width : 0;
    KernelWorkspace workspace{.forward = planes + scratch(ConvolutionPass::forward)};
    if (dw) {  // before dx has memory
      workspace.backward = std::max<int64_t>(
          0, planes + scratch(ConvolutionPass::backward_weights) - (dx ? x_.count() * width : 0));
    }
    if (dx) {
      workspace.backward = std::max(workspace.backward, scratch(ConvolutionPass::backward_input));
    }
    if (takes_depthwise(g_, y_.block)) workspace.backward = 0;
    const bool active = g_.activation.kind != Activation::none;
    if (active && (dx || dw)) workspace.backward += y_.count() * width;  // before the activation
    return workspace;
  }

  template <class T>
  bool forward(const AffineInputs& in, const Tensor& y) {
    const auto forward_request = [&](bool fused) {
      return request(ConvolutionPass::forward, g_.bias, fused);
    };
    if (!possible_ || algorithms_.hopeless(forward_request(true)) ||
        algorithms_.hopeless(forward_request(false))) {
      return false;
    }
    const LayoutInput x(allocator_, in.x, x_);
    const bool fused = fuses(x.data<T>(), in);
    LayoutOutput out(allocator_, y, y_);
    T* values = out.data<T>();
    const bool constant = in.w.whole_storage() && in.w.storage()->constant();
    const ConvolutionOperands operands{.x = x.data<T>(),
                                       .w = memory(in.w),
                                       .bias = g_.bias ? memory(in.b) : nullptr,
                                       .y = values,
                                       .packed = constant ? &in.w.storage()->derived() : nullptr};
    ConvolutionRequest chosen = forward_request(fused);
    chosen.constant_weights = constant;
    if (!algorithms_.run(chosen, operands)) return false;
    if (in.residual.defined()) {
      const LayoutInput residual(allocator_, in.residual, y_);
      residual_activation(residual.data<T>(), values, y_.count(), g_.activation);
    } else if (!fused) {
      const T* no_bias = nullptr;
      bias_activation(values, values, y_.n * y_.blocks(), y_.positions * y_.block, no_bias,
                      g_.activation);
    }
    out.finish();
    return true;
  }

  template <class T>
  bool backward(const AffineSaved& saved, const Tensor& dy, const AffineGrads& out) {
    const ConvolutionRequest for_x = request(ConvolutionPass::backward_input, false, false);
    const ConvolutionRequest for_w = request(ConvolutionPass::backward_weights, false, false);
    const bool depthwise = possible_ && takes_depthwise(g_, y_.block);
    if (!possible_ || (!depthwise && ((out.dx.defined() && algorithms_.hopeless(for_x)) ||
                                      (out.dw.defined() && algorithms_.hopeless(for_w))))) {
      return false;
    }
    const LayoutInput gradient(allocator_, dy, y_);
    const bool active = g_.activation.kind != Activation::none;
    const Scratch<T> before(allocator_, active ? y_.count() : 0);
    T* dz = gradient.data<T>();  // before the activation
    if (active) {
      const LayoutInput y(allocator_, saved.y, y_);
      activation_gradient(g_.activation, y.data<T>(), dz, before.data(), y_.count());
      dz = before.data();
    }
    if (out.dw.defined()) {
      const LayoutInput x(allocator_, saved.x, x_);
      T* const dw = static_cast<T*>(memory(out.dw));
      if (depthwise) {
        depthwise_backward_weights(allocator_, g_, x_, x.data<T>(), dz, dw);
      } else if (!algorithms_.run(for_w, {.x = x.data<T>(), .w = dw, .y = dz})) {
        return false;
      }
    }
    if (out.db.defined()) {  // oneDNN's sum over all positions is one f32
      const Scratch<double> sums(allocator_, y_.lanes() * 2);
      const Scratch<float> zero(allocator_, y_.lanes());
      std::fill_n(zero.data(), y_.lanes(), 0.0f);
      NormPasses<T>::moments(allocator_, y_, dz, zero.data(), sums.data(),
                             sums.data() + y_.lanes());
      write_elements(out.db, [&](int64_t c) { return sums[c]; });
    }
    if (out.dx.defined()) {
      LayoutOutput result(allocator_, out.dx, x_);
      T *const dx = result.data<T>(), *const w = static_cast<T*>(memory(saved.w));
      if (depthwise) {
        depthwise_backward_input<T>(allocator_, g_, x_, w, dz, dx);
      } else if (!algorithms_.run(for_x, {.x = dx, .w = w, .y = dz})) {
        return false;
      }
      result.finish();
    }
    return true;
  }

 private:
  ConvolutionRequest request(ConvolutionPass pass, bool bias, bool fused) const {
    ConvolutionRequest r{.geometry = g_, .pass = pass, .x = x_.layout, .y = y_.layout};
    r.geometry.bias = bias;
    if (!fused) r.geometry.activation = {};
    return r;
  }

  // Note [Fused relu and NaN]
  // relu keeps NaN, but the relu that oneDNN fuses into a convolution is max(z, 0), which returns
  // 0. So it is fused only where no sum z can be NaN: operands are finite and too small for any
  // partial sum to overflow, including Winograd's transforms (they scale by less than 2^21). That
  // check reads x and w; where y is not larger than those, an own pass over y is used instead.
  // oneDNN's leaky_relu multiplies by the slope and keeps NaN.
  template <class T>
  bool fuses(const T* x, const AffineInputs& in) const {
    if (in.residual.defined()) return false;  // added in the activation's pass
    const Tensor& w = in.w;
    if (g_.activation.kind == Activation::leaky_relu) return g_.activation.slope != 0;
    if (g_.activation.kind != Activation::relu) return false;
    if (2 * y_.count() <= x_.count() + w.count()) return false;
    const auto terms = static_cast<double>(w.count() / g_.c_out);
    double bound = terms * double{largest_magnitude(x, x_.count())} * double{largest<T>(w)};
    if (g_.bias) bound += double{largest<T>(in.b)};
    return bound < 0x1p100;  // false for NaN
  }

  Conv2dAlgorithms& algorithms_;
  Allocator& allocator_;
  const Conv2dGeometry& g_;
  ImageLayout x_, y_;
  bool possible_;
};
#endif

class Convolution final : public ConvolutionKernels, CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  void conv2d(const Conv2dGeometry& g, const AffineInputs& in, const Tensor& y) override {
    const bool wide = in_f32("conv2d", y);
#if WHISKER_ONEDNN
    if (wide ? dnnl(g).forward<float>(in, y) : native() && dnnl(g).forward<bf16_t>(in, y)) return;
#endif
    if (!wide) {
      ViaF32 t(device_.backend, "conv2d", y);
      return conv2d(as_f32(g), t.in(in), t.out(y));
    }
    conv2d_gemm(allocator_, g, ConvolutionPass::forward, f32(in.x), f32(in.w), f32(y));
    const bool adds = in.residual.defined();
    bias_activation(f32(y), f32(y), g.n * g.h_out * g.w_out, g.c_out, g.bias ? f32(in.b) : nullptr,
                    adds ? ActivationSpec() : g.activation);
    if (adds) residual_activation(f32(in.residual), f32(y), y.count(), g.activation);
  }

  KernelWorkspace conv2d_workspace([[maybe_unused]] const Conv2dGeometry& g,
                                   [[maybe_unused]] bool dx, [[maybe_unused]] bool dw) override {
#if WHISKER_ONEDNN
    if (g.dtype == DType::f32 || native()) return dnnl(g).workspace(dx, dw);
#endif
    return {};
  }

  void conv2d_backward(const Conv2dGeometry& g, const AffineSaved& saved, const Tensor& dy,
                       const AffineGrads& out) override {
    const bool wide = in_f32("conv2d", dy);
#if WHISKER_ONEDNN
    if (wide ? dnnl(g).backward<float>(saved, dy, out)
             : native() && dnnl(g).backward<bf16_t>(saved, dy, out)) {
      return;
    }
#endif
    if (!wide) {
      ViaF32 t(device_.backend, "conv2d", dy);
      return conv2d_backward(as_f32(g), t.in(saved), t.in(dy), t.out(out));
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
  Conv2dDnnl dnnl(const Conv2dGeometry& g) {
    return {*device_.conv2d_algorithms, allocator_, g};
  }
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
