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

Tensor GlobalMaxPool2D::forward(const Tensor& x, const Pass&) {
  return max(x, {1, 2});
}
Shape GlobalMaxPool2D::output_shape(const Shape& x) const {
  check_image("global_max_pool2d", x);
  return {x[0], x[3]};
}
OperatorCost GlobalMaxPool2D::cost(const Shape&, bool x_needs_grad) const {
  return {.keeps_input = x_needs_grad, .keeps_output = x_needs_grad};
}

BlurPool2D::BlurPool2D(const Options& options) : options_(options) {
  if (options.kernel < 2 || options.kernel > 7 || options.stride < 1) {
    fail(ErrorKind::usage,
         "blur_pool2d: expected a kernel from 2 to 7 and strides of at least 1, got {} and {}",
         options.kernel, options.stride);
  }
}

namespace {

// Without the edge itself, as PyTorch's padding_mode="reflect"; `before` and `after` below extent.
Tensor reflect(const Tensor& x, int axis, int64_t before, int64_t after) {
  const int64_t extent = x.extent(axis);
  std::vector<Tensor> parts;
  for (int64_t i = before; i > 0; --i) parts.push_back(slice(x, axis, i, i + 1));
  parts.push_back(x);
  for (int64_t i = 2; i < after + 2; ++i) {
    parts.push_back(slice(x, axis, extent - i, extent - i + 1));
  }
  return concat(parts, axis);
}

}  // namespace

const Tensor& BlurPool2D::filters(const Tensor& x) {
  const TensorOptions like = x.options();
  if (filters_.defined() && filters_.device() == like.device && filters_.dtype() == like.dtype) {
    return filters_;
  }
  std::vector<double> row{1};
  for (int64_t i = 1; i < options_.kernel; ++i) {
    row.push_back(0);
    for (size_t at = row.size() - 1; at > 0; --at) row[at] = (row[at] + row[at - 1]) / 2;
    row[0] /= 2;
  }
  std::vector<double> values;
  for (int64_t c = 0; c < x.extent(3); ++c) {
    for (const double down : row) {
      for (const double across : row) values.push_back(down * across);
    }
  }
  filters_ = from_vector(values, {x.extent(3), options_.kernel, options_.kernel, 1}, like);
  return filters_;
}

Tensor BlurPool2D::forward(const Tensor& x, const Pass&) {
  const int64_t before = (options_.kernel - 1) / 2, after = options_.kernel / 2;
  const Tensor padded = reflect(reflect(x, 1, before, after), 2, before, after);
  return conv2d(padded, filters(x), {}, {.stride = options_.stride, .groups = x.extent(3)});
}

std::string BlurPool2D::describe() const {
  return fmt::format("{}x{} /{}", options_.kernel, options_.kernel, options_.stride);
}

Shape BlurPool2D::output_shape(const Shape& x) const {
  const int64_t least = options_.kernel / 2 + 1;
  if (x.rank() != 4 || x[1] < least || x[2] < least) {
    fail(ErrorKind::usage, "blur_pool2d: expected (N,H,W,C) with H and W of at least {}, got {}",
         least, x);
  }
  const auto outputs = [&](int64_t extent) { return (extent - 1) / options_.stride + 1; };
  return {x[0], outputs(x[1]), outputs(x[2]), x[3]};
}

OperatorCost BlurPool2D::cost(const Shape& x, bool x_needs_grad) const {
  const int64_t taps = options_.kernel * options_.kernel;
  const int64_t padded = x[0] * (x[1] + options_.kernel - 1) * (x[2] + options_.kernel - 1) * x[3];
  return {.multiply_adds = output_shape(x).count() * taps,
          .kept_elements = x_needs_grad ? x[3] * taps : 0,
          .transient_bytes = 2 * padded * element_bytes};
}

}  // namespace whisker
