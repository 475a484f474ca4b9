// Shapes and calls of the pooling layers.
#include "layers/pool.h"

namespace whisker {

std::string describe_windows(const Pool2dOptions& options) {
  const Pair stride = options.stride.value_or(options.kernel);
  std::string text = fmt::format("{}x{}", options.kernel.h, options.kernel.w);
  if (!(stride == options.kernel)) text += fmt::format(" /{}", stride.h);
  return text;
}

Shape pooled_shape(PoolKind kind, const Shape& x, const Pool2dOptions& options) {
  const Pool2dGeometry g = pool2d_geometry(kind, x, options);
  return {g.n, g.h_out, g.w_out, g.c};
}

namespace {

void check_image(const char* layer, const Shape& x) {
  if (x.rank() == 4 && x[1] > 0 && x[2] > 0) return;
  fail(ErrorKind::usage, "{}: expected (N,H,W,C) with H and W above 0, got {}", layer, x);
}

}  // namespace

Tensor MaxPool2D::forward(const Tensor& x, const Pass&) {
  return max_pool2d(x, options_);
}
std::string MaxPool2D::describe() const {
  return describe_windows(options_);
}
Shape MaxPool2D::output_shape(const Shape& x) const {
  return pooled_shape(PoolKind::max, x, options_);
}

OperatorCost MaxPool2D::cost(const Shape& x, bool x_needs_grad) const {
  return {.kept_bytes = x_needs_grad ? output_shape(x).count() * pool_argmax_bytes : 0};
}

Tensor AvgPool2D::forward(const Tensor& x, const Pass&) {
  return avg_pool2d(x, options_);
}
std::string AvgPool2D::describe() const {
  return describe_windows(options_);
}
Shape AvgPool2D::output_shape(const Shape& x) const {
  return pooled_shape(PoolKind::average, x, options_);
}

Tensor AdaptiveAvgPool2D::forward(const Tensor& x, const Pass&) {
  return adaptive_avg_pool2d(x, output_);
}
std::string AdaptiveAvgPool2D::describe() const {
  return fmt::format("{}x{}", output_.h, output_.w);
}
Shape AdaptiveAvgPool2D::output_shape(const Shape& x) const {
  check_image("adaptive_avg_pool2d", x);
  if (output_.h < 1 || output_.w < 1) {
    fail(ErrorKind::usage, "adaptive_avg_pool2d: output must be at least 1x1, got {}x{}", output_.h,
         output_.w);
  }
  return {x[0], output_.h, output_.w, x[3]};
}

Tensor GlobalAvgPool2D::forward(const Tensor& x, const Pass&) {
  return global_avg_pool2d(x);
}
Shape GlobalAvgPool2D::output_shape(const Shape& x) const {
  check_image("global_avg_pool2d", x);
  return {x[0], x[3]};
}

}  // namespace whisker
