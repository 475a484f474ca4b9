// Lessons 5 and 6: convolution, pooling, normalisation. Images are (N, H, W, C).
#include "apps/study/grading/exercises.h"
#include "core/ops/ops.h"

#include <vector>

namespace whisker {
namespace {

using V = const Values&;

Conv2dOptions conv_options(V v) {
  return {.stride = v.whole("stride"), .padding = v.whole("padding")};
}

Tensor convolution(V v) {
  return conv2d(v["x"], v["w"], {}, conv_options(v));
}

// w with its rows and columns in reverse order.
Tensor flipped(const Tensor& w) {
  Tensor result = w;
  for (const int axis : {1, 2}) {
    std::vector<Tensor> parts;
    for (int64_t i = w.extent(axis); i-- > 0;) parts.push_back(slice(result, axis, i, i + 1));
    result = concat(parts, axis);
  }
  return result;
}

Values with_value(Values v, const char* name, const Tensor& value) {
  v.set(name, value);
  return v;
}

// x with zeros but in the last slice of an axis.
Tensor last_alone(const Tensor& x, int axis) {
  const int64_t last = x.extent(axis) - 1;
  const Tensor rest = slice(x, axis, 0, last);
  return concat({zeros(rest.shape(), rest.options()), slice(x, axis, last, last + 1)}, axis);
}

double& at(const Tensor& x, int64_t i, int64_t j, int64_t k, int64_t l) {
  const Shape& s = x.shape();
  return x.data<double>()[static_cast<size_t>(((i * s[1] + j) * s[2] + k) * s[3] + l)];
}

// The last term of each sum alone: '=' in place of '+=' in loops over images, rows, columns and
// channels of dy, then rows, columns and channels of a filter.
Tensor last_terms(V v, bool of_input) {
  const Tensor &x = v["x"], &filters = v["w"], &dy = v["dy"];
  const Tensor result = zeros((of_input ? x : filters).shape(), x.options());
  const int64_t loops[] = {dy.extent(0),      dy.extent(1),      dy.extent(2),     dy.extent(3),
                           filters.extent(1), filters.extent(2), filters.extent(3)};
  const int64_t terms = dy.count() * filters.count() / filters.extent(0);
  for (int64_t term = 0; term < terms; ++term) {
    int64_t rest = term, i[7] = {};
    for (size_t k = 7; k-- > 0; rest /= loops[k]) i[k] = rest % loops[k];
    const auto [n, h, w, o, kh, kw, c] = i;
    const int64_t row = h * v.whole("stride") + kh - v.whole("padding");
    const int64_t column = w * v.whole("stride") + kw - v.whole("padding");
    if (row < 0 || row >= x.extent(1) || column < 0 || column >= x.extent(2)) continue;
    if (of_input)
      at(result, n, row, column, c) = at(dy, n, h, w, o) * at(filters, o, kh, kw, c);
    else
      at(result, o, kh, kw, c) = at(dy, n, h, w, o) * at(x, n, row, column, c);
  }
  return result;
}

std::vector<Setup> convolutions() {
  const auto setup = [](std::string_view says, const Shape& x, const Shape& w, double stride,
                        double padding) {
    return Setup{says, {{"x", x}, {"w", w}}, {{"stride", stride}, {"padding", padding}}};
  };
  return {setup("1 channel, stride 1", {1, 3, 4, 1}, {1, 2, 3, 1}, 1, 0),
          setup("batch 2, 2 channels, stride 1", {2, 4, 5, 2}, {3, 3, 2, 2}, 1, 0),
          setup("batch 2, 2 channels, stride 2", {2, 5, 6, 2}, {3, 2, 3, 2}, 2, 0),
          setup("batch 2, 2 channels, stride 1, padding 1", {2, 4, 3, 2}, {3, 3, 3, 2}, 1, 1),
          setup("batch 2, 2 channels, stride 2, padding 1", {2, 5, 6, 2}, {3, 3, 2, 2}, 2, 1)};
}

Exercise conv2d_input() {
  Exercise exercise{.name = "conv2d_input",
                    .lesson = 5,
                    .title = "the gradient of a convolution's input, with stride and padding",
                    .signature =
                        "conv2d_backward_input(View<const T> dy, View<const T> w, int stride, "
                        "int padding, View<T> dx)",
                    .setups = convolutions(),
                    .forward = convolution};
  const auto gradient = [exercise](V v) { return engine_gradient(exercise, v, "x"); };
  exercise.faults = {
      {"dx",
       "the filter is turned by 180 degrees: what reads x(h + i) with w(i) gives its gradient back "
       "with the same w(i)",
       [=](V v) { return gradient(with_value(v, "w", flipped(v["w"]))); }},
      {"dx", "the sum is missing: '=' keeps the last term of each element; '+=' adds",
       [](V v) { return last_terms(v, true); }},
      {"dx", "the sum over the output channels is missing: the last one alone counts",
       [=](V v) { return gradient(with_value(v, "dy", last_alone(v["dy"], 3))); }}};
  return exercise;
}

Exercise conv2d_weight() {
  Exercise exercise{.name = "conv2d_weight",
                    .lesson = 5,
                    .title = "the gradient of a convolution's filters, with stride and padding",
                    .signature =
                        "conv2d_backward_weight(View<const T> dy, View<const T> x, int stride, "
                        "int padding, View<T> dw)",
                    .setups = convolutions(),
                    .forward = convolution};
  const auto gradient = [exercise](V v) { return engine_gradient(exercise, v, "w"); };
  exercise.faults = {
      {"dw", "the sum over the batch is missing: the last example alone counts",
       [=](V v) { return gradient(with_value(v, "dy", last_alone(v["dy"], 0))); }},
      {"dw", "the sum is missing: '=' keeps the last term of each element; '+=' adds",
       [](V v) { return last_terms(v, false); }},
      {"dw", "it is turned by 180 degrees: w(i) is what multiplies x(h + i)",
       [=](V v) { return flipped(gradient(v)); }}};
  return exercise;
}

Pool2dOptions pool_options(V v) {
  return {.kernel = v.whole("size"), .stride = Pair(v.whole("stride"))};
}

std::vector<Setup> pools() {
  const auto setup = [](std::string_view says, const Shape& x, double size, double stride) {
    return Setup{says, {{"x", x}}, {{"size", size}, {"stride", stride}}};
  };
  return {setup("one window", {1, 2, 2, 1}, 2, 2), setup("batch 2, 2 channels", {2, 4, 6, 2}, 2, 2),
          setup("overlapping windows", {2, 5, 7, 1}, 3, 2)};
}

Exercise max_pool_backward() {
  Exercise exercise{
      .name = "max_pool",
      .lesson = 5,
      .title = "max pooling: the gradient goes to each window's largest element",
      .signature =
          "max_pool_backward(View<const T> dy, View<const T> x, int size, int stride, "
          "View<T> dx)",
      .setups = pools(),
      .prepare =
          [](Values& v, uint64_t) {
            if (v.has("below")) v.set("x", affine(abs(v["x"]), -1, -0.25));
          },
      .forward = [](V v) { return max_pool2d(v["x"], pool_options(v)); }};
  exercise.setups.push_back(
      {"values below 0", {{"x", {1, 4, 4, 1}}}, {{"size", 2}, {"stride", 2}, {"below", 1}}});
  Exercise average = exercise;
  average.forward = [](V v) { return avg_pool2d(v["x"], pool_options(v)); };
  const auto shared = [average](V v) { return engine_gradient(average, v, "x"); };
  const auto scale = [](V v) { return v.number("size") * v.number("size"); };
  exercise.faults = {
      {"dx", "the gradient is divided among the window: that is average pooling", shared},
      {"dx", "each element of the window gets dy; the largest alone does",
       [=](V v) { return shared(v) * scale(v); }},
      {"dx", "the largest value is multiplied by dy; the slope of a maximum is 1",
       [exercise](V v) { return engine_gradient(exercise, v, "x") * v["x"]; }},
      {"dx", "the smallest element of the window gets the gradient",
       [exercise](V v) { return engine_gradient(exercise, with_value(v, "x", -v["x"]), "x"); }}};
  return exercise;
}

Exercise avg_pool_backward() {
  Exercise exercise{
      .name = "avg_pool",
      .lesson = 5,
      .title = "average pooling: the gradient is divided among each window",
      .signature = "avg_pool_backward(View<const T> dy, int size, int stride, View<T> dx)",
      .setups = pools(),
      .forward = [](V v) { return avg_pool2d(v["x"], pool_options(v)); }};
  const auto gradient = [exercise](V v) { return engine_gradient(exercise, v, "x"); };
  exercise.faults = {{"dx", "the scale 1 / (size size) is missing",
                      [=](V v) { return gradient(v) * (v.number("size") * v.number("size")); }},
                     {"dx", "it is divided by size; a window has size times size elements",
                      [=](V v) { return gradient(v) * v.number("size"); }}};
  return exercise;
}

struct NormFault {
  bool no_mean = false, no_variance = false, unbiased = false;
};
// The gradient of (x - mean) / sqrt(variance + eps) over `axis`, where dz arrives.
Tensor norm_gradient(const Tensor& x, const Tensor& dz, double eps, int axis, NormFault fault) {
  constexpr ReduceOptions keep{.keep_axes = true};
  const Tensor centered = x - mean(x, {axis}, keep);
  const Tensor deviation = sqrt(var(x, {axis}, keep, fault.unbiased ? 1 : 0) + eps);
  const Tensor z = centered / deviation;
  Tensor inner = dz;
  if (!fault.no_mean) inner = inner - mean(dz, {axis}, keep);
  if (!fault.no_variance) inner = inner - z * mean(dz * z, {axis}, keep);
  return inner / deviation;
}

// The exercise of batch norm with axis 0, of layer norm with axis 1.
Exercise norm_exercise(int axis, Exercise exercise) {
  exercise.forward = [axis](V v) {
    constexpr ReduceOptions keep{.keep_axes = true};
    const Tensor& x = v["x"];
    const Tensor deviation = sqrt(var(x, {axis}, keep, 0) + v.number("eps"));
    return (x - mean(x, {axis}, keep)) / deviation * v["gamma"] + v["beta"];
  };
  const auto with = [axis](NormFault fault) {
    return [=](V v) {
      return norm_gradient(v["x"], v["dy"] * v["gamma"], v.number("eps"), axis, fault);
    };
  };
  const std::string_view over = axis == 0 ? "the batch" : "the row";
  exercise.faults = {
      {"dx",
       "mean and variance are taken for constants: they depend on each x, which adds two terms",
       with({.no_mean = true, .no_variance = true})},
      {"dx", "the term of the variance is missing: - z mean(dz z)", with({.no_variance = true})},
      {"dx", "the term of the mean is missing: - mean(dz)", with({.no_mean = true})},
      {"dx", "the variance is divided by n - 1; here it is divided by n", with({.unbiased = true})},
      {"dx", "gamma is missing: dz = dy gamma",
       [axis](V v) { return norm_gradient(v["x"], v["dy"], v.number("eps"), axis, {}); }},
      {"dx",
       over == "the batch" ? "the statistics are those of the rows; batch norm's are the columns'"
                           : "the statistics are those of the columns; layer norm's are the rows'",
       [axis](V v) {
         return norm_gradient(v["x"], v["dy"] * v["gamma"], v.number("eps"), 1 - axis, {});
       }},
      {"dgamma", "x is not normalised: dgamma is the sum of dy (x - mean) / deviation",
       [](V v) { return sum(v["dy"] * v["x"], {0}); }},
      {"dgamma", "the sum over the rows is missing: '=' keeps the last row; '+=' adds",
       [exercise](V v) {
         return engine_gradient(exercise, with_value(v, "dy", last_alone(v["dy"], 0)), "gamma");
       }},
      {"dbeta", "the sum over the rows is missing: '=' keeps the last row; '+=' adds",
       [](V v) { return sum(last_alone(v["dy"], 0), {0}); }}};
  return exercise;
}

Setup norm_setup(std::string_view says, int64_t rows, int64_t columns) {
  return {
      says, {{"x", {rows, columns}}, {"gamma", {columns}}, {"beta", {columns}}}, {{"eps", 0.1}}};
}

Exercise batch_norm_backward() {
  return norm_exercise(
      0,
      {.name = "batch_norm",
       .lesson = 6,
       .title = "batch norm in training: the statistics depend on x, too",
       .signature = "batch_norm_backward(View<const T> dy, View<const T> x, "
                    "View<const T> gamma, T eps, View<T> dx, View<T> dgamma, View<T> dbeta)",
       .setups = {norm_setup("3 rows, 2 columns", 3, 2), norm_setup("5 rows, 4 columns", 5, 4)}});
}

Exercise layer_norm_backward() {
  return norm_exercise(
      1,
      {.name = "layer_norm",
       .lesson = 6,
       .title = "layer norm: the statistics of each row",
       .signature = "layer_norm_backward(View<const T> dy, View<const T> x, "
                    "View<const T> gamma, T eps, View<T> dx, View<T> dgamma, View<T> dbeta)",
       .setups = {norm_setup("2 rows, 3 columns", 2, 3), norm_setup("4 rows, 5 columns", 4, 5)}});
}

}  // namespace

std::vector<Exercise> image_exercises() {
  return {conv2d_input(),      conv2d_weight(),       max_pool_backward(),
          avg_pool_backward(), batch_norm_backward(), layer_norm_backward()};
}

}  // namespace whisker
