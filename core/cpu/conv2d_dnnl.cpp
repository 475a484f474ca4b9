// Activations are blocked on both sides but for pictures of one or three channels, which oneDNN's
// first-layer kernels read as planes. Results stay blocked in their storage; operands are never
// moved. Weights are reordered in every call: forward and backward want different orders, each once
// per step, so that a cache would save nothing in training, and writes through data() have no
// version.
#include "core/cpu/conv2d_dnnl.h"

#include "core/cpu/batch_norm.h"
#include "core/cpu/magnitude.h"
#include "core/cpu/rows.h"

#include <algorithm>

namespace whisker::cpu {
namespace {

float* values(const Tensor& x) {
  return x.defined() ? static_cast<float*>(x.raw()) : nullptr;
}

}  // namespace

Conv2dDnnl::Conv2dDnnl(Conv2dPlans& plans, Allocator& allocator, const CpuOptions& options,
                       const Conv2dGeometry& g)
    : plans_(&plans), allocator_(&allocator), options_(&options), g_(g) {
  const int64_t block = dnnl_channel_block();
  x_ = {.n = g.n, .places = g.h * g.w, .channels = g.c};
  y_ = {.n = g.n, .places = g.h_out * g.w_out, .channels = g.c_out};
  possible_ = block > 0 && x_.count() > 0 && y_.count() > 0;
  if (!possible_) return;
  if (g.groups == 1 && (g.c == 1 || g.c == 3)) {
    x_.layout = Layout::planar;
  } else {
    x_ = x_.blocked(block);
  }
  y_ = y_.blocked(block);
  // A sigmoid of zero is not zero: padding channels would not survive it.
  possible_ = g.activation.kind != Activation::sigmoid || g.c_out % block == 0;
}

ConvolutionRequest Conv2dDnnl::request(ConvolutionPass pass, bool bias, bool fused) const {
  ConvolutionRequest r{.geometry = g_, .pass = pass, .x = x_.layout, .y = y_.layout, .bias = bias};
  r.geometry.bias = false;
  if (!fused) r.geometry.activation = {};
  return r;
}

// Note [Fused relu and NaN]
// relu keeps a NaN, but the relu that oneDNN fuses into a convolution is max(z, 0), which turns it
// into 0. So it is used only where no sum z can be NaN: operands are finite, and too small for any
// partial sum to overflow, Winograd's transforms included (they scale by less than 2^21). Knowing
// that takes a look at x and w; a pass of our own over y is taken where y is not larger than those.
// oneDNN's leaky_relu multiplies by the slope and keeps a NaN.
bool Conv2dDnnl::fuses(const float* x, const Tensor& w, const Tensor& b) const {
  if (g_.activation.kind == Activation::leaky_relu) return g_.activation.slope != 0;
  if (g_.activation.kind != Activation::relu) return false;
  if (2 * y_.count() <= x_.count() + w.count()) return false;
  const auto terms = static_cast<double>(w.count() / g_.c_out);
  double largest = terms * static_cast<double>(largest_magnitude(x, x_.count())) *
                   static_cast<double>(largest_magnitude(values(w), w.count()));
  if (g_.bias) largest += static_cast<double>(largest_magnitude(values(b), b.count()));
  return largest < 0x1p100;  // false for NaN
}

bool Conv2dDnnl::forward(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) {
  const auto forward_request = [&](bool fused) {
    return request(ConvolutionPass::forward, g_.bias, fused);
  };
  if (!possible_ || plans_->hopeless(forward_request(true)) ||
      plans_->hopeless(forward_request(false))) {
    return false;
  }
  const ArrangedInput in(*allocator_, x, x_);
  const bool fused = fuses(in.data(), w, b);
  ArrangedOutput out(*allocator_, y, y_);
  if (!run(forward_request(fused), {.x = in.data(),
                                    .w = values(w),
                                    .bias = g_.bias ? values(b) : nullptr,
                                    .y = out.values()})) {
    return false;
  }
  if (!fused) {
    bias_activation(out.values(), y_.n * y_.blocks(), y_.places * y_.block, nullptr, g_.activation);
  }
  out.finish();
  return true;
}

bool Conv2dDnnl::backward(const Tensor& x, const Tensor& w, const Tensor& y, const Tensor& dy,
                          const Tensor& dx, const Tensor& dw, const Tensor& db) {
  const ConvolutionRequest for_x = request(ConvolutionPass::backward_input, false, false);
  const ConvolutionRequest for_w = request(ConvolutionPass::backward_weights, db.defined(), false);
  if (!possible_ || (dx.defined() && plans_->hopeless(for_x)) ||
      (dw.defined() && plans_->hopeless(for_w))) {
    return false;
  }
  const ArrangedInput gradient(*allocator_, dy, y_);
  const bool active = g_.activation.kind != Activation::none;
  const Scratch<float> before(*allocator_, active ? y_.count() : 0);
  float* dz = gradient.data();  // before the activation
  if (active) {
    const ArrangedInput out(*allocator_, y, y_);
    activation_gradient(g_.activation, out.data(), dz, before.data(), y_.count());
    dz = before.data();
  }
  if (dw.defined()) {
    const ArrangedInput in(*allocator_, x, x_);
    if (!run(for_w, {.x = in.data(), .w = values(dw), .bias = values(db), .y = dz})) return false;
  } else if (db.defined()) {
    const NormPlanes p{.planes = y_.planes(), .places = y_.places};
    const Scratch<double> sums(*allocator_, p.lanes() * 2);
    const Scratch<float> zero(*allocator_, p.lanes());
    std::fill_n(zero.data(), p.lanes(), 0.0f);
    norm_moments(*allocator_, p, dz, zero.data(), sums.data(), sums.data() + p.lanes());
    for (int64_t c = 0; c < g_.c_out; ++c) values(db)[c] = static_cast<float>(sums[c]);
  }
  if (dx.defined()) {
    ArrangedOutput out(*allocator_, dx, x_);
    if (!run(for_x, {.x = out.values(), .w = values(w), .y = dz})) return false;
    out.finish();
  }
  return true;
}

}  // namespace whisker::cpu
