// Loops over windows around the reference's own batch norm: forward it normalises everything and
// takes what the winners became; backward the parameters' gradients are sums over the winners, the
// input's goes through the whole picture.
#include "core/reference/pooled_batch_norms.h"

#include "core/autograd.h"
#include "core/reference/activation_functions.h"
#include "core/reference/loops.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace whisker {
namespace {

constexpr const char* op_name = "batch_norm_max_pool2d";

/// Calls fn(picture, i, j, channel, position in y) for every element of y.
template <class Fn>
void for_each_result(const Pool2dGeometry& g, Fn&& fn) {
  int64_t at = 0;
  for (int64_t n = 0; n < g.n; ++n) {
    for (int64_t i = 0; i < g.h_out; ++i) {
      for (int64_t j = 0; j < g.w_out; ++j) {
        for (int64_t c = 0; c < g.c; ++c) fn(n, i, j, c, at++);
      }
    }
  }
}

/// Position in x of a place of window (i, j), places counted row by row; -1 beyond the picture.
int64_t position_of(const Pool2dGeometry& g, int64_t n, int64_t i, int64_t j, int64_t c,
                    int64_t place) {
  const int64_t row = i * g.stride_h - g.pad_top + place / g.kernel_w;
  const int64_t column = j * g.stride_w - g.pad_left + place % g.kernel_w;
  if (row < 0 || row >= g.h || column < 0 || column >= g.w) return -1;
  return ((n * g.h + row) * g.w + column) * g.c + c;
}

/// The place that wins window (i, j): that of the largest x or, with `falls`, of the smallest.
template <class T>
int64_t winner_of(const Pool2dGeometry& g, const T* x, int64_t n, int64_t i, int64_t j, int64_t c,
                  bool falls) {
  int64_t winner = -1;
  double best = 0;
  for (int64_t place = 0; place < g.kernel_h * g.kernel_w; ++place) {
    const int64_t at = position_of(g, n, i, j, c, place);
    if (at < 0) continue;
    const double value = falls ? -double{x[at]} : double{x[at]};
    if (winner < 0 || value > best || (std::isnan(value) && !std::isnan(best))) {
      best = value;
      winner = place;
    }
  }
  return winner;
}

/// The norm over the windows' winners.
BatchNormGeometry over(const BatchNormGeometry& norm, const Pool2dGeometry& windows) {
  BatchNormGeometry g = norm;
  g.n = windows.n;
  g.h = windows.h_out;
  g.w = windows.w_out;
  g.rows = g.n * g.h * g.w;
  return g;
}

}  // namespace

void ReferencePooledBatchNorms::normalise(const TrainingNorm& norm, const Pool2dGeometry& pool,
                                          const PoolWinners& winners, const Tensor& y) {
  const Tensor z = empty_like(norm.x);  // (N, H, W, C)
  backend_.batch_norm_train(norm.geometry, norm.x, norm.gamma, norm.beta, {}, z, norm.mean,
                            norm.inverse_deviation, norm.running);
  visit_real(op_name, y.dtype(), [&]<class T>() {
    const T* x = elements<T>(norm.x);
    const T* gamma = elements<T>(norm.gamma);          // (C)
    T* won = elements<T>(winners.x);                   // (N, h_out, w_out, C) or null
    auto* places = elements<uint8_t>(winners.places);  // (N, h_out, w_out, C) or null
    for_each_result(pool, [&](int64_t n, int64_t i, int64_t j, int64_t c, int64_t at) {
      const int64_t place = winner_of(pool, x, n, i, j, c, gamma[c] < 0);
      const int64_t from = position_of(pool, n, i, j, c, place);
      elements<T>(y)[at] = elements<T>(z)[from];
      if (won) won[at] = x[from];
      if (places) places[at] = static_cast<uint8_t>(place);
    });
  });
}

void ReferencePooledBatchNorms::backward(const TrainingNorm& norm, const Pool2dGeometry& pool,
                                         const PoolWinners& winners, const GradientParts& dy,
                                         const NormGradients& gradients) {
  const Tensor dz = empty_like(winners.x);
  BatchNormGeometry plain = norm.geometry;  // dz is behind the activation
  plain.activation = {};
  visit_real(op_name, dz.dtype(), [&]<class T>() {
    const T* gamma = elements<T>(norm.gamma);  // these four: (C)
    const T* beta = elements<T>(norm.beta);
    const T* mean = elements<T>(norm.mean);
    const T* inverse = elements<T>(norm.inverse_deviation);
    for_each_result(pool, [&](int64_t, int64_t, int64_t, int64_t c, int64_t at) {
      const double normalised =
          (double{elements<T>(winners.x)[at]} - double{mean[c]}) * double{inverse[c]};
      const double y =
          activate(norm.geometry.activation, normalised * double{gamma[c]} + double{beta[c]});
      elements<T>(dz)[at] = convert<T>(
          activation_gradient(norm.geometry.activation, y, double{elements<T>(dy.first)[at]}));
    });
  });
  backend_.batch_norm_backward(over(plain, pool), false, winners.x, norm.gamma, norm.beta, {},
                               norm.mean, norm.inverse_deviation, {dz, {}}, {}, gradients.dgamma,
                               gradients.dbeta, {});
  if (!gradients.dx.defined()) return;
  const Tensor gathered = empty_like(norm.x);
  visit_real(op_name, dz.dtype(), [&]<class T>() {
    std::vector<double> sum(static_cast<size_t>(gathered.count()));  // (N, H, W, C)
    for_each_result(pool, [&](int64_t n, int64_t i, int64_t j, int64_t c, int64_t at) {
      const int64_t to = position_of(pool, n, i, j, c, elements<uint8_t>(winners.places)[at]);
      sum[static_cast<size_t>(to)] += double{elements<T>(dz)[at]};
    });
    std::transform(sum.begin(), sum.end(), elements<T>(gathered), convert<T, double>);
  });
  backend_.batch_norm_backward(plain, true, norm.x, norm.gamma, norm.beta, {}, norm.mean,
                               norm.inverse_deviation, {gathered, {}}, gradients.dx, {}, {}, {});
}

}  // namespace whisker
