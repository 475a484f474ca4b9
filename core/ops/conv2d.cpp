// 2-D convolution (cross-correlation, as the field calls it) with bias, residual, activation and
// max-pooling in one operator, NHWC. Groups and dilation included.
#include "core/ops/conv2d.h"

#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/convolution.h"
#include "core/backend/fused_ops.h"
#include "core/ops/checks.h"
#include "core/ops/window.h"

namespace whisker {

Conv2dGeometry conv2d_geometry(const Shape& x, const Shape& w, bool bias,
                               const Conv2dOptions& options, DType dtype) {
  if (x.rank() != 4 || w.rank() != 4) {
    fail(ErrorKind::usage,
         "conv2d: expected x (N,H,W,C) and w (c_out,kernel_h,kernel_w,C/groups), got x {}, w {}.",
         x, w);
  }
  if (x.count() == 0 || w.count() == 0) {
    fail(ErrorKind::usage, "conv2d: expected at least one element in x and w, got x {}, w {}.", x,
         w);
  }
  check_attribute("conv2d", "stride", options.stride, 1);
  check_attribute("conv2d", "dilation", options.dilation, 1);
  check_attribute("conv2d", "padding", options.padding, 0);
  if (options.groups < 1 || x[3] % options.groups != 0 || w[0] % options.groups != 0) {
    fail(ErrorKind::usage,
         "conv2d: groups {} must divide the {} channels of x and the {} filters of w: x {}, w {}.",
         options.groups, x[3], w[0], x, w);
  }
  if (w[3] != x[3] / options.groups) {
    fail(ErrorKind::usage,
         "conv2d: x has {} channel{}, w expects {}: x {}, w {}. Make w with {} input channels, or "
         "feed x with {}.",
         x[3], x[3] == 1 ? "" : "s", w[3] * options.groups, x, w, x[3] / options.groups,
         w[3] * options.groups);
  }
  const WindowAxis rows{.extent = x[1],
                        .kernel = w[1],
                        .stride = options.stride.h,
                        .padding = options.padding.h,
                        .dilation = options.dilation.h,
                        .mode = options.padding_mode};
  const WindowAxis columns{.extent = x[2],
                           .kernel = w[2],
                           .stride = options.stride.w,
                           .padding = options.padding.w,
                           .dilation = options.dilation.w,
                           .mode = options.padding_mode};
  const WindowPlaces down = place_windows("conv2d", "height", rows);
  const WindowPlaces across = place_windows("conv2d", "width", columns);
  return {.n = x[0],
          .h = x[1],
          .w = x[2],
          .c = x[3],
          .c_out = w[0],
          .kernel_h = w[1],
          .kernel_w = w[2],
          .stride_h = options.stride.h,
          .stride_w = options.stride.w,
          .pad_top = down.before,
          .pad_bottom = down.after,
          .pad_left = across.before,
          .pad_right = across.after,
          .dilation_h = options.dilation.h,
          .dilation_w = options.dilation.w,
          .groups = options.groups,
          .h_out = down.count,
          .w_out = across.count,
          .bias = bias,
          .activation = options.activation,
          .dtype = dtype};
}

namespace {

// A convolution, then what cannot be part of it.
Tensor conv2d_unfused(const Tensor& x, const Tensor& w, const Tensor& b,
                      const Conv2dOptions& options, const Tensor& residual) {
  Conv2dOptions plain = options;
  plain.activation = {};
  plain.max_pool = {};
  const Tensor z = conv2d(x, w, b, plain);
  const Tensor y = activation(residual.defined() ? z + residual : z, options.activation);
  return options.max_pool ? max_pool2d(y, *options.max_pool) : y;
}

Conv2dGeometry checked_geometry(const Tensor& x, const Tensor& w, const Tensor& b,
                                const Conv2dOptions& options) {
  check_alike("conv2d", "x", x, "w", w);
  check_computes("conv2d", "x", x);
  check_activation("conv2d", options.activation);
  const Conv2dGeometry geometry =
      conv2d_geometry(x.shape(), w.shape(), b.defined(), options, x.dtype());
  if (b.defined()) {
    check_vector("conv2d", "b", b, geometry.c_out, w, "w");
    check_alike("conv2d", "x", x, "b", b);
  }
  return geometry;
}

void check_residual(const Conv2dGeometry& g, const Tensor& x, const Tensor& residual) {
  check_alike("conv2d", "x", x, "residual", residual);
  const Shape y{g.n, g.h_out, g.w_out, g.c_out};
  if (residual.shape() == y) return;
  fail(ErrorKind::usage, "conv2d: expected a residual shaped as the result {}, got {}.", y,
       residual.shape());
}

Tensor empty_result(const Conv2dGeometry& geometry, const Tensor& x) {
  return empty({geometry.n, geometry.h_out, geometry.w_out, geometry.c_out}, x.options());
}

void record_conv2d(const Conv2dGeometry& geometry, const Tensor& x, const Tensor& w,
                   const Tensor& b, const Tensor& y) {
  const bool fused = geometry.activation.kind != Activation::none;
  if (op_attributes) *op_attributes = attributes_of(geometry);
  record("conv2d", {&x, &w, &b}, y,
         [geometry, x = save_if(needs_grad(w), x), w = save_if(needs_grad(x), w),
          y = fused ? save_output(y) : Saved()](Gradients& g) {
           g.no_double_backward();
           const Tensor dx = g.grad_buffer_if_needed(0);
           const Tensor dw = g.grad_buffer_if_needed(1);
           const Tensor db = g.grad_buffer_if_needed(2);
           backend_of(g.dy().device())
               .convolution()
               .conv2d_backward(geometry, {.x = x(g), .w = w(g), .y = y(g)}, g.dy(),
                                {.dx = dx, .dw = dw, .db = db});
         });
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options,
              const Tensor& residual) {
  const bool has_residual = residual.defined();
  if (has_residual) check_residual(checked_geometry(x, w, b, options), x, residual);
  const bool backward = needs_grad(x) || needs_grad(w) || needs_grad(b) || needs_grad(residual);
  if ((backward && (has_residual || !grad_from_output(options.activation.kind))) ||
      (options.max_pool && (has_residual || !is_monotonic(options.activation)))) {
    return conv2d_unfused(x, w, b, options, residual);
  }
  const Conv2dGeometry geometry = checked_geometry(x, w, b, options);
  if (options.max_pool) return conv2d_max_pool2d(geometry, *options.max_pool, x, w, b);
  const Tensor y = empty_result(geometry, x);
  backend_of(x.device())
      .convolution()
      .conv2d(geometry, {.x = x, .w = w, .b = b, .residual = residual}, y);
  record_conv2d(geometry, x, w, b, y);
  return y;
}

Convolved conv2d_with_sums(const Tensor& x, const Tensor& w, const Conv2dOptions& options) {
  FusedConvNorm* const fused = backend_of(x.device()).fused_conv_norm();
  if (!fused || options.activation.kind != Activation::none || options.max_pool) {
    return {.y = conv2d(x, w, {}, options)};
  }
  const Conv2dGeometry geometry = checked_geometry(x, w, {}, options);
  if (!depthwise_takes_norm(geometry)) return {.y = conv2d(x, w, {}, options)};
  const Convolved result{.y = empty_result(geometry, x),
                         .sums = empty({3, geometry.c_out}, {.device = x.device()})};
  fused->convolve(geometry, {.x = x, .w = w}, {.y = result.y, .sums = result.sums});
  record_conv2d(geometry, x, w, {}, result.y);
  return result;
}

}  // namespace whisker
