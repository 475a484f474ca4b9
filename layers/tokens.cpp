// Interpolation is a product with a constant matrix, so that its gradient needs no kernel.
#include "layers/tokens.h"

#include "layers/initializers.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

namespace whisker {
namespace {

const InitializerSpec small_normal{.kind = InitializerKind::normal, .deviation = 0.02};

void check_image(const char* layer, const Shape& x, int64_t channels) {
  if (x.rank() == 4 && x[3] == channels) return;
  fail(ErrorKind::usage, "{}: expected (N,H,W,{}), got {}", layer, channels, x);
}

// Keys 1981 with a = -1/2.
double cubic(double x) {
  const double a = std::fabs(x);
  if (a < 1) return (1.5 * a - 2.5) * a * a + 1;
  return a < 2 ? ((-0.5 * a + 2.5) * a - 4) * a + 2 : 0;
}

/// (to, from): row i has the weights that make element i of a resized axis. Antialiased where it
/// shrinks, as PyTorch's interpolate(mode="bicubic", antialias=True).
std::vector<double> resize_weights(int64_t from, int64_t to) {
  std::vector<double> weights(static_cast<size_t>(to * from), 0.0);
  const double ratio = static_cast<double>(from) / static_cast<double>(to);
  const double widened = std::max(ratio, 1.0);
  for (int64_t i = 0; i < to; ++i) {
    const double centre = ratio * (static_cast<double>(i) + 0.5);
    const auto first = std::max<int64_t>(static_cast<int64_t>(centre - 2 * widened + 0.5), 0);
    const auto end = std::min<int64_t>(static_cast<int64_t>(centre + 2 * widened + 0.5), from);
    double* const row = weights.data() + i * from;
    double sum = 0;
    for (int64_t j = first; j < end; ++j) {
      row[j] = cubic((static_cast<double>(j) + 0.5 - centre) / widened);
      sum += row[j];
    }
    for (int64_t j = first; j < end; ++j) row[j] /= sum;
  }
  return weights;
}

}  // namespace

ClassToken::ClassToken(int64_t channels, int64_t count) : channels_(channels), count_(count) {
  token_ = add_parameter("", {1, count, channels}, ParameterRole::bias,
                         make_initializer(small_normal, {}));
}

Tensor ClassToken::forward(const Tensor& x, const Pass&) {
  const Shape& shape = x.shape();
  const Tensor token = broadcast_to(token_->value().reshape({1, 1, count_, channels_}),
                                    {shape[0], 1, count_, channels_});
  return concat({token, x.reshape({shape[0], 1, shape[1] * shape[2], channels_})}, 2);
}

Shape ClassToken::output_shape(const Shape& x) const {
  check_image("class_token", x, channels_);
  return {x[0], 1, count_ + x[1] * x[2], x[3]};
}

PositionEmbedding::PositionEmbedding(const Options& options) : options_(options) {
  const Options& o = options_;
  positions_ = add_parameter("", {1, o.tokens + o.grid.h * o.grid.w, o.channels},
                             ParameterRole::bias, make_initializer(small_normal, {}));
}

/// (tokens + positions of the image, tokens + positions of the grid).
const Tensor& PositionEmbedding::resize_matrix(TensorOptions options) {
  if (matrix_.defined() && matrix_.device() == options.device && matrix_.dtype() == options.dtype) {
    return matrix_;
  }
  const auto [grid, image, tokens] = std::tuple(options_.grid, options_.image, options_.tokens);
  const std::vector<double> down = resize_weights(grid.h, image.h);
  const std::vector<double> across = resize_weights(grid.w, image.w);
  const int64_t rows = tokens + image.h * image.w, columns = tokens + grid.h * grid.w;
  std::vector<double> values(static_cast<size_t>(rows * columns), 0.0);
  const auto at = [&](int64_t row, int64_t column) -> double& {
    return values[static_cast<size_t>(row * columns + column)];
  };
  for (int64_t i = 0; i < tokens; ++i) at(i, i) = 1;
  for (int64_t position = 0; position < image.h * image.w; ++position) {
    const double* const row = down.data() + position / image.w * grid.h;
    const double* const column = across.data() + position % image.w * grid.w;
    for (int64_t k = 0; k < grid.h * grid.w; ++k) {
      at(tokens + position, tokens + k) = row[k / grid.w] * column[k % grid.w];
    }
  }
  matrix_ = from_vector(values, {rows, columns}, options);
  return matrix_;
}

Tensor PositionEmbedding::forward(const Tensor& x, const Pass&) {
  const Tensor& all = positions_->value();
  Tensor positions = all;
  if (resizes()) {
    const Tensor plain = all.reshape({all.extent(1), options_.channels});
    positions = matmul(resize_matrix(all.options()), plain);
  }
  return x + positions.reshape(x.shape().with(0, 1));
}

std::string PositionEmbedding::describe() const {
  std::string text = fmt::format("{}x{}", options_.image.h, options_.image.w);
  if (resizes()) text += fmt::format(" of {}x{}", options_.grid.h, options_.grid.w);
  return text;
}

Shape PositionEmbedding::output_shape(const Shape& x) const {
  const Pair image = options_.image;
  const bool fits = x.rank() == 4 && x[3] == options_.channels &&
                    x[1] * x[2] == options_.tokens + image.h * image.w;
  if (!fits) {
    fail(ErrorKind::usage, "position_embedding: expected (N,H,W,{}) with {} positions, got {}",
         options_.channels, options_.tokens + image.h * image.w, x);
  }
  return x;
}

OperatorCost PositionEmbedding::cost(const Shape&, bool) const {
  if (!resizes() || frozen()) return {};
  const Pair grid = options_.grid, image = options_.image;
  return {.kept_elements =
              (options_.tokens + image.h * image.w) * (options_.tokens + grid.h * grid.w)};
}

Tensor FirstToken::forward(const Tensor& x, const Pass&) {
  const Shape& shape = x.shape();
  return slice(x.reshape({shape[0], shape[1] * shape[2], shape[3]}), 1, 0, count_)
      .reshape(output_shape(shape));
}

Shape FirstToken::output_shape(const Shape& x) const {
  if (x.rank() != 4 || x[1] * x[2] < count_) {
    fail(ErrorKind::usage, "first_token: expected (N,H,W,C) of at least {} positions, got {}",
         count_, x);
  }
  return {x[0], count_ * x[3]};
}

}  // namespace whisker
