// The shape arithmetic of every operator: plain comparable structs, filled and checked once by the
// operator, handed to the backend, and the key of its plan caches. Extents are elements. Plain C++
// alone, so that kernels can include it, too.
#pragma once

#include "core/tensor/dtype_name.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace whisker {

class Shape;

inline constexpr int max_rank = 8;
using Extents = std::array<int64_t, max_rank>;
using AxisMask = std::array<bool, max_rank>;

/// Pointwise functions with a known first and second derivative; the fused ops take one.
enum class Activation : uint8_t {
  none,
  relu,
  leaky_relu,
  sigmoid,
  tanh,
  gelu,
  silu,
  softplus,
  relu6,
  hard_sigmoid,
  hard_swish
};
inline constexpr int activation_count = 11;
std::string_view name_of(Activation activation);
/// True when f'(x) follows from y = f(x) alone, so that y is all a backward pass keeps.
constexpr bool grad_from_output(Activation activation) {
  return activation == Activation::none || activation == Activation::relu ||
         activation == Activation::leaky_relu || activation == Activation::sigmoid ||
         activation == Activation::tanh || activation == Activation::relu6 ||
         activation == Activation::hard_sigmoid;
}

/// True when f(0) = 0: zeros that pad a layout stay zeros.
constexpr bool keeps_zero(Activation activation) {
  return activation != Activation::sigmoid && activation != Activation::softplus &&
         activation != Activation::hard_sigmoid;
}

/// An activation and its parameter (leaky_relu's slope for x < 0).
struct ActivationSpec {
  Activation kind = Activation::none;
  float slope = 0.01f;
  bool operator==(const ActivationSpec&) const = default;
};

/// True when f never falls, so that the largest of f(x) is f of the largest x: max-pooling may come
/// before f.
constexpr bool is_monotonic(ActivationSpec f) {
  return f.kind == Activation::none || f.kind == Activation::relu ||
         (f.kind == Activation::leaky_relu && f.slope >= 0) || f.kind == Activation::sigmoid ||
         f.kind == Activation::tanh || f.kind == Activation::relu6 ||
         f.kind == Activation::hard_sigmoid;
}

enum class UnaryOp : uint8_t {
  neg,
  exp,
  log,
  sqrt,
  reciprocal,
  abs,
  sign,
  pow,     // x ^ a
  clamp,   // min(max(x, a), b)
  inside,  // 1 where a <= x <= b, else 0: clamp's derivative
  affine,  // a x + b
};
struct UnarySpec {
  UnaryOp op;
  double a = 0;
  double b = 0;
};

enum class BinaryOp : uint8_t { add, sub, mul, div, maximum, minimum };
enum class CompareOp : uint8_t { equal, not_equal, less, less_equal, greater, greater_equal };
enum class ReduceOp : uint8_t { sum, mean, max, min };

/// Two operands broadcast to one result; neighbouring axes that move alike are merged.
/// Strides are in elements, 0 along a broadcast axis. One element may come as rank 0.
struct BroadcastGeometry {
  int rank = 0;
  Extents extent{};
  Extents a_stride{};
  Extents b_stride{};
  int64_t count = 0;

  static BroadcastGeometry of(const Shape& a, const Shape& b, const Shape& out);
  /// Neither operand is broadcast.
  bool same_shape() const {
    return rank <= 1 && (count <= 1 || (a_stride[0] == 1 && b_stride[0] == 1));
  }
};

/// A reduction over some axes; neighbouring axes of one kind are merged, axes of extent 1 dropped.
/// The result enumerates the kept axes in order.
struct ReduceGeometry {
  int rank = 0;
  Extents extent{};
  AxisMask reduced{};
  int64_t out_count = 1;
  int64_t reduce_count = 1;

  static ReduceGeometry of(const Shape& x, const AxisMask& mask);
};

/// Element-by-element copy between two strided walks over dense memory (transpose, slice, concat,
/// pad, broadcast). Strides and offsets are in elements; a source stride may be 0.
struct CopyGeometry {
  int rank = 0;
  Extents extent{};
  Extents source_stride{};
  Extents target_stride{};
  int64_t source_offset = 0;
  int64_t target_offset = 0;

  /// Adds an inner axis, merged into the one before it when both walks allow; extent 1 is dropped.
  void append(int64_t step_count, int64_t from_stride, int64_t to_stride);
};

/// y[b] = op(a[b]) op(b[b]): (m,k) x (k,n) for each of `batch`; a stride of 0 shares an operand.
struct MatmulGeometry {
  int64_t batch = 1;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // a is stored (k,m)
  bool transpose_b = false;  // b is stored (n,k)
  int64_t a_batch_stride = 0;
  int64_t b_batch_stride = 0;
  bool operator==(const MatmulGeometry&) const = default;
};

/// x (N,H,W,C) * w (c_out, kernel_h, kernel_w, C / groups) -> y (N, h_out, w_out, c_out).
struct Conv2dGeometry {
  int64_t n = 0, h = 0, w = 0, c = 0;
  int64_t c_out = 0, kernel_h = 0, kernel_w = 0;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t groups = 1;
  int64_t h_out = 0, w_out = 0;
  bool bias = false;
  ActivationSpec activation;  // applied to y; grad_from_output where gradients follow
  DType dtype = DType::f32;
  bool operator==(const Conv2dGeometry&) const = default;
};

/// True for the depthwise convolutions that normalise what they read: square windows of 3, 5 or 7,
/// strides of 1 or 2, whole packs of channels, images with less than 2^31 elements.
constexpr bool depthwise_takes_norm(const Conv2dGeometry& g) {
  const bool window = g.kernel_h == 3 || g.kernel_h == 5 || g.kernel_h == 7;
  const bool square = g.kernel_h == g.kernel_w && g.stride_h == g.stride_w;
  const bool small = g.h * g.w * g.c < int64_t{1} << 31 && g.h_out * g.w_out * g.c < int64_t{1}
                                                                                         << 31;
  return g.groups == g.c && g.c_out == g.c && g.c % (g.dtype == DType::f32 ? 4 : 8) == 0 &&
         window && square && g.stride_h <= 2 && g.dilation_h == 1 && g.dilation_w == 1 && small;
}

enum class PoolKind : uint8_t { max, average };

/// Windows over x (N,H,W,C) -> y (N, h_out, w_out, C).
struct Pool2dGeometry {
  PoolKind kind = PoolKind::max;
  int64_t n = 0, h = 0, w = 0, c = 0;
  int64_t kernel_h = 0, kernel_w = 0;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  int64_t h_out = 0, w_out = 0;
  // Rows and columns around x that an average counts as zeros. What a window rounded up by `ceil`
  // reaches beyond the padding never counts (PyTorch's rule for count_include_pad).
  int64_t counted_top = 0, counted_bottom = 0, counted_left = 0, counted_right = 0;
  DType dtype = DType::f32;
  bool operator==(const Pool2dGeometry&) const = default;

  constexpr bool is_square(int64_t kernel, int64_t stride) const {
    return kernel_h == kernel && kernel_w == kernel && stride_h == stride && stride_w == stride;
  }
  /// No window lies beyond the image altogether.
  constexpr bool all_see_image() const {
    return pad_top < kernel_h && (h_out - 1) * stride_h - pad_top < h && pad_left < kernel_w &&
           (w_out - 1) * stride_w - pad_left < w;
  }
  /// How many elements the average over window (i, j) divides by; 0 when it sees none.
  int64_t divisor(int64_t i, int64_t j) const {
    const int64_t top = i * stride_h - pad_top;
    const int64_t left = j * stride_w - pad_left;
    const int64_t rows = std::min(top + kernel_h, h + counted_bottom) - std::max(top, -counted_top);
    const int64_t columns =
        std::min(left + kernel_w, w + counted_right) - std::max(left, -counted_left);
    return std::max<int64_t>(rows, 0) * std::max<int64_t>(columns, 0);
  }
};

/// Normalisation of x (rows, channels) per channel, over all rows.
struct BatchNormGeometry {
  int64_t rows = 0, channels = 0;
  int64_t n = 0, h = 1, w = 1;  // rows = n * h * w: the image the rows came from
  double epsilon = 1e-5;
  ActivationSpec activation;  // none or relu
  bool residual = false;      // y = f(normalised + residual)
  bool training = false;      // statistics are the batch's: backward goes through them
  DType dtype = DType::f32;
  bool operator==(const BatchNormGeometry&) const = default;
};

/// Normalisation of each row of x (rows, features).
struct LayerNormGeometry {
  int64_t rows = 0, features = 0;
  double epsilon = 1e-5;
  bool operator==(const LayerNormGeometry&) const = default;
};

/// Normalisation of x (n, positions, channels) per example and group of adjacent channels.
struct GroupNormGeometry {
  int64_t n = 0, positions = 0, channels = 0;
  int64_t groups = 1;
  double epsilon = 1e-5;
  bool operator==(const GroupNormGeometry&) const = default;

  constexpr int64_t per_group() const { return channels / groups; }  // channels
};

/// Softmax along the middle axis of (outer, classes, inner).
struct SoftmaxGeometry {
  int64_t outer = 0, classes = 0, inner = 1;
  bool log = false;
  bool operator==(const SoftmaxGeometry&) const = default;
};

/// y (rows, out) = activation(x (rows, in) w^T (out, in) + b (out)).
struct LinearGeometry {
  int64_t rows = 0, in = 0, out = 0;
  bool bias = false;
  ActivationSpec activation;  // always grad_from_output
  DType dtype = DType::f32;
  bool operator==(const LinearGeometry&) const = default;
};

/// Mean loss over logits (rows, classes).
struct CrossEntropyGeometry {
  int64_t rows = 0, classes = 0;
  double label_smoothing = 0;
  bool soft = false;  // targets are (rows, classes) probabilities, else i64 class indices (rows)
  bool weighted = false;  // class weights (classes) are given
};

/// Selection along the middle axis: x (outer, extent, inner), index (outer, picks, inner).
struct GatherGeometry {
  int64_t outer = 1, extent = 0, inner = 1, picks = 0;
};

enum class RecurrentKind : uint8_t { rnn_tanh, rnn_relu, lstm, gru };
/// "rnn_tanh", "lstm", ...
std::string_view name_of(RecurrentKind kind);

/// x (steps, batch, features) through `layers` layers in one or two directions -> y (steps, batch,
/// directions * output()). A cell is one layer in one direction: number layer * directions +
/// direction. docs/internals/recurrent.md has the equations.
struct RecurrentGeometry {
  RecurrentKind kind = RecurrentKind::lstm;
  int64_t steps = 0, batch = 0, features = 0, hidden = 0;
  int64_t projection = 0;  // of an lstm's state; 0: none
  int64_t layers = 1, directions = 1;
  bool bias = true;
  bool lengths = false;  // every sequence has its own number of steps
  double dropout = 0;    // between layers, in training
  DType dtype = DType::f32;
  bool operator==(const RecurrentGeometry&) const = default;

  bool is_lstm() const { return kind == RecurrentKind::lstm; }
  /// Blocks of `hidden` rows in a cell's weights: i f g o of an lstm, r z n of a gru.
  int64_t gates() const { return is_lstm() ? 4 : kind == RecurrentKind::gru ? 3 : 1; }
  int64_t cells() const { return layers * directions; }
  /// Extent of one direction's state and result.
  int64_t output() const { return projection > 0 ? projection : hidden; }
  /// Extent of what a layer reads.
  int64_t inputs(int64_t layer) const { return layer == 0 ? features : directions * output(); }
};

/// Where a random draw lives: see core/backend/dropout_mask.h. One dropout call uses one (stream,
/// step).
struct RandomKey {
  uint64_t seed = 0;
  uint64_t stream = 0;
  uint64_t step = 0;
  /// In device memory, or null: added to `step` when the draw is made, so that a captured step
  /// draws anew each time it is replayed.
  const int64_t* offset = nullptr;
};

/// Self-attention over (batch, tokens, heads * head_size), of q, k and v side by side.
struct AttentionGeometry {
  int64_t batch = 0, tokens = 0, heads = 1, head_size = 0;
  bool bias = false;
  std::array<int64_t, 4> bias_stride{};  // of (batch, heads, query, key); 0 where broadcast
  double dropout = 0;                    // of the probabilities
  RandomKey key;
  DType dtype = DType::f32;

  constexpr int64_t width() const { return heads * head_size; }
  double scale() const;  // 1 / sqrt(head_size)
};

}  // namespace whisker
