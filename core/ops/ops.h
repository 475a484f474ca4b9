// Every operator: checks its arguments, computes on the operands' device, records its gradient.
// All throw usage, naming the operator, the shapes and the remedy. Bodies are in core/ops/.
// Broadcasting follows NumPy. Operands must share device and dtype. Computing operators take the
// floating types their device computes in (core/ops/checks.h); comparisons, where, cast and the
// operators that only move elements take every type. Backends never see an empty tensor.
#pragma once

#include "core/autograd/gradient_operators.h"
#include "core/backend/geometry.h"
#include "core/tensor/tensor.h"

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

// --- arithmetic ------------------------------------------------------------------------------
// add() is declared in core/autograd/gradient_operators.h, as is broadcast_to().
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
/// Elementwise larger and smaller; at a tie the gradient goes to a.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
/// scale x + shift.
Tensor affine(const Tensor& x, double scale, double shift);

inline Tensor operator+(const Tensor& a, const Tensor& b) {
  return add(a, b);
}
inline Tensor operator-(const Tensor& a, const Tensor& b) {
  return sub(a, b);
}
inline Tensor operator*(const Tensor& a, const Tensor& b) {
  return mul(a, b);
}
inline Tensor operator/(const Tensor& a, const Tensor& b) {
  return div(a, b);
}
inline Tensor operator+(const Tensor& a, double b) {
  return affine(a, 1, b);
}
inline Tensor operator-(const Tensor& a, double b) {
  return affine(a, 1, -b);
}
inline Tensor operator*(const Tensor& a, double b) {
  return affine(a, b, 0);
}
inline Tensor operator*(double a, const Tensor& b) {
  return affine(b, a, 0);
}
inline Tensor operator-(const Tensor& a) {
  return affine(a, -1, 0);
}

Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor pow(const Tensor& x, double exponent);
Tensor clamp(const Tensor& x, double low, double high);

// --- comparisons: bool results, no gradient --------------------------------------------------
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
/// condition ? a : b, all three broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor cast(const Tensor& x, DType dtype);

// --- activations -----------------------------------------------------------------------------
Tensor activation(const Tensor& x, ActivationSpec f);
Tensor relu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double slope = 0.01);  // slope >= 0
/// x Phi(x), with erf (Hendrycks and Gimpel 2016).
Tensor gelu(const Tensor& x);
Tensor silu(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor softplus(const Tensor& x);
/// min(max(x, 0), 6).
Tensor relu6(const Tensor& x);
/// relu6(x + 3) / 6 (Howard et al. 2019).
Tensor hard_sigmoid(const Tensor& x);
/// x hard_sigmoid(x) (Howard et al. 2019).
Tensor hard_swish(const Tensor& x);
/// Inverted dropout (Srivastava et al. 2014): keeps with probability 1 - rate and scales by its
/// inverse. The mask is drawn again in backward, not stored.
Tensor dropout(const Tensor& x, double rate, const RandomKey& key);

/// Stochastic depth (Huang et al. 2016): zeroes each example (first axis) with probability `rate`
/// and scales the others by 1 / (1 - rate).
Tensor drop_path(const Tensor& x, double rate, const RandomKey& key);

// --- reductions: over `axes`, all of them when empty ------------------------------------------
struct ReduceOptions {
  bool keep_axes = false;  ///< reduced axes stay, with extent 1
};
using Axes = std::vector<int>;
Tensor sum(const Tensor& x, const Axes& axes = {}, ReduceOptions options = {});
Tensor mean(const Tensor& x, const Axes& axes = {}, ReduceOptions options = {});
/// Ties share the gradient equally.
Tensor max(const Tensor& x, const Axes& axes = {}, ReduceOptions options = {});
Tensor min(const Tensor& x, const Axes& axes = {}, ReduceOptions options = {});
/// Sum of squared deviations over (count - correction).
Tensor var(const Tensor& x, const Axes& axes = {}, ReduceOptions options = {}, int correction = 1);
/// i64 position of the first largest element; no gradient.
Tensor argmax(const Tensor& x, int axis = -1);
/// Sums x down to `shape`, the reverse of broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);
/// sum_to(a * b, shape), without the product in memory where a and b have one shape.
Tensor sum_products_to(const Tensor& a, const Tensor& b, const Shape& shape);

// --- shape and index --------------------------------------------------------------------------
Tensor reshape(const Tensor& x, const Shape& shape);
/// Axes in a new order: y's axis i is x's axis order[i]. Copies.
Tensor transpose(const Tensor& x, const std::vector<int>& order);
Tensor concat(std::span<const Tensor> tensors, int axis);
Tensor concat(std::initializer_list<Tensor> tensors, int axis);
/// Elements [begin, end) along `axis`; a view when axis is 0.
Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end);
/// Consecutive slices of the given sizes, which add up to the extent.
std::vector<Tensor> split(const Tensor& x, std::span<const int64_t> sizes, int axis);
/// One (before, after) pair per axis, filled with `value`.
Tensor pad(const Tensor& x, std::span<const std::pair<int64_t, int64_t>> amounts, double value = 0);
/// y[..., i, ...] = x[..., index[..., i, ...], ...]; index is i64 with x's shape off `axis`.
Tensor gather(const Tensor& x, int axis, const Tensor& index);
/// Rows of table (entries, features) at index (any shape, i64) -> index shape + (features).
Tensor embedding(const Tensor& table, const Tensor& index);
/// index (any shape, i64) -> index shape + (classes).
Tensor one_hot(const Tensor& index, int64_t classes, DType dtype = DType::f32);

// --- matrix products --------------------------------------------------------------------------
/// (..., m, k) x (..., k, n) -> (..., m, n); leading axes broadcast.
Tensor matmul(const Tensor& a, const Tensor& b);
/// activation(x w^T + b): x (..., in), w (out, in), b (out) or undefined.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, ActivationSpec activation = {});

// --- convolution and pooling ------------------------------------------------------------------
enum class PaddingMode : uint8_t { number, same, valid };

/// A scalar or a (height, width) pair.
struct Pair {
  int64_t h = 1, w = 1;
  Pair(int64_t both) : h(both), w(both) {}  // NOLINT: an extent reads as a pair
  Pair(int64_t height, int64_t width) : h(height), w(width) {}
  bool operator==(const Pair&) const = default;
};

struct Pool2dOptions {
  Pair kernel = 2;
  std::optional<Pair> stride = {};  ///< the kernel when absent
  Pair padding = 0;
  PaddingMode padding_mode = PaddingMode::number;
  bool ceil = false;  ///< round the output extents up
  /// Average: padding counts in the divisor (PyTorch's default is true), but never what a window
  /// rounded up reaches beyond it.
  bool count_padding = false;
};

struct Conv2dOptions {
  Pair stride = 1;
  Pair padding = 0;  ///< on both sides, for PaddingMode::number
  /// `same`: h_out = ceil(h / stride), the odd element at the end (TensorFlow's rule).
  PaddingMode padding_mode = PaddingMode::number;
  Pair dilation = 1;
  int64_t groups = 1;
  ActivationSpec activation = {};
  std::optional<Pool2dOptions> max_pool = {};  ///< of the activated result, in the same operator
};
/// x (N,H,W,C), w (c_out, kernel_h, kernel_w, C / groups), b (c_out) or undefined
/// -> (N, h_out, w_out, c_out), or that of the windows when max_pool is given. `residual`, when
/// defined, is added before the activation.
Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv2dOptions& options = {},
              const Tensor& residual = {});
/// A convolution's result on its way to a batch_norm.
struct Convolved {
  Tensor y = {};     ///< (N, h_out, w_out, c_out)
  Tensor sums = {};  ///< f32, for batch_norm: see SummedOutput; undefined where nobody took them
};
/// conv2d without a bias that also takes the sums for batch_norm: a depthwise convolution, where
/// the device has a kernel for both.
Convolved conv2d_with_sums(const Tensor& x, const Tensor& w, const Conv2dOptions& options = {});
Conv2dGeometry conv2d_geometry(const Shape& x, const Shape& w, bool bias,
                               const Conv2dOptions& options, DType dtype = DType::f32);

/// x (N,H,W,C) -> (N, h_out, w_out, C). Padding is never the maximum.
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options);
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options);
Pool2dGeometry pool2d_geometry(PoolKind kind, const Shape& x, const Pool2dOptions& options,
                               DType dtype = DType::f32);
/// Averages over windows [floor(i H / h_out), ceil((i + 1) H / h_out)).
Tensor adaptive_avg_pool2d(const Tensor& x, Pair output);
/// (N,H,W,C) -> (N,C).
Tensor global_avg_pool2d(const Tensor& x);

// --- normalisation ----------------------------------------------------------------------------
/// Running statistics of a batch_norm, (C) each. In training the new values go to the pending
/// tensors; whoever drives the step commits them (core/parameters/parameters.h).
struct BatchNormState {
  Tensor running_mean, running_var;
  Tensor pending_mean, pending_var;
  Tensor sums = {};  ///< Convolved::sums of x: training then needs no pass over x of its own
};
/// The processes over whose rows a batch_norm takes its statistics. Each has a part of the rows,
/// and calls the same operators.
struct NormRanks {
  int world = 1;
  double fraction = 1;  ///< of all rows, that this process has
  /// Collectives as Communicator has them (core/communicator/communicator.h).
  std::function<void(const Tensor& own, const Tensor& all)> all_gather = {};
  std::function<void(const Tensor& sums)> all_reduce = {};
};
struct BatchNormOptions {
  bool training = false;
  double momentum = 0.1;  ///< weight of the new batch (PyTorch's meaning)
  double epsilon = 1e-5;
  ActivationSpec activation = {};    ///< none or relu
  const NormRanks* ranks = nullptr;  ///< training; null: of these rows alone. Outlives backward.
  bool fusible() const { return training && !ranks; }
};
/// Per channel (last axis) over all other axes (Ioffe and Szegedy 2015). `residual`, when defined,
/// is added before the activation. gamma, beta (C).
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const BatchNormState& state, const BatchNormOptions& options,
                  const Tensor& residual = {});
/// What a batch_norm takes besides x.
struct BatchNormOperands {
  Tensor gamma, beta;
  BatchNormState state;
  BatchNormOptions options;
  Tensor residual = {};  ///< added before the activation, where defined
};
/// activation(batch_norm(x) + batch_norm(added)), with the activation of x's norm; neither norm has
/// a residual. In training one operator where the device has FusedAddNorms, which stores only the
/// result; elsewhere batch_norm after batch_norm.
Tensor add_batch_norms(const Tensor& x, const BatchNormOperands& norm, const Tensor& added,
                       const BatchNormOperands& added_norm);
/// max_pool2d(batch_norm(x), pool). In training one operator where
/// batch_norm_max_pool2d_is_fused(): the norm's result and its gradient are never stored. Of
/// elements that the norm makes equal, that with the largest x is the argmax (gamma below 0: with
/// the smallest). Elsewhere the two operators run, and the first of equal elements is the argmax.
Tensor batch_norm_max_pool2d(const Tensor& x, const BatchNormOperands& norm,
                             const Pool2dOptions& pool);
/// True in training, with none or relu and without a residual, for windows of 2x2 or 3x3 with
/// strides of 2, where the device has passes over both.
bool batch_norm_max_pool2d_is_fused(const Tensor& x, const BatchNormOperands& norm,
                                    const Pool2dOptions& pool);
/// z factors(mean of z over H and W) with z = batch_norm(x), for images (N,H,W,C) and factors
/// (N,1,1,C): squeeze-and-excitation (Hu et al. 2018). In training without a residual, where the
/// device's batch norm multiplies by factors itself, the gradient of z is never stored; elsewhere
/// the plain operators run.
Tensor batch_norm_excite(const Tensor& x, const BatchNormOperands& norm,
                         const std::function<Tensor(const Tensor&)>& factors);
bool batch_norm_excite_is_fused(const Tensor& x, const BatchNormOperands& norm);
/// conv2d_with_sums(batch_norm(x), w). In training one operator where batch_norm_conv2d_is_fused():
/// what lies between is never stored, and backward computes it again.
Convolved batch_norm_conv2d(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
                            const Conv2dOptions& options = {});
/// True in training without a residual, for depthwise convolutions (depthwise_takes_norm()) and
/// narrow pointwise ones of 16 bits (pointwise_takes_norm()), where the device has kernels that
/// normalise as they read.
bool batch_norm_conv2d_is_fused(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
                                const Conv2dOptions& options = {});
/// Over the last axis (Ba, Kiros and Hinton 2016). gamma, beta (features).
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon = 1e-5);
struct GroupNormOptions {
  int64_t groups = 1;  ///< of adjacent channels; divides them
  double epsilon = 1e-5;
};
/// Per example (first axis) and group of channels (last axis) over all other axes (Wu and He 2018).
/// gamma, beta (C).
Tensor group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const GroupNormOptions& options = {});

// --- attention --------------------------------------------------------------------------------
struct AttentionOptions {
  int64_t heads = 1;
  double dropout = 0;  ///< of the probabilities
  RandomKey key = {};
};
/// softmax(q k^T / sqrt(d) + bias) v of each example and head (Vaswani et al. 2017), without a
/// matrix of tokens by tokens in memory where the device has kernels for that. qkv (N, tokens,
/// 3 heads d): q, k and v side by side -> (N, tokens, heads d). bias: rank 4, broadcasts to (N,
/// heads, tokens, tokens), or undefined; -infinity masks a key, of which each query needs one.
Tensor attention(const Tensor& qkv, const Tensor& bias = {}, const AttentionOptions& options = {});

// --- losses: scalars, f32 for 16-bit logits ------------------------------------------------------
Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);
struct CrossEntropyOptions {
  double label_smoothing = 0;
  Tensor class_weight = {};  ///< (classes); the mean is weighted, as PyTorch's
};
/// Mean over rows of -sum_c target_c log softmax(logits)_c. logits (N, classes); target i64 (N),
/// or probabilities (N, classes).
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options = {});
/// Mean over elements, from logits, without overflow. target has logits' shape, in [0, 1].
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target);
Tensor mse_loss(const Tensor& prediction, const Tensor& target);

}  // namespace whisker
