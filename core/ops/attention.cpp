// Multi-head self-attention: one operator where the device has kernels for it, whose memory is
// linear in the tokens; elsewhere, and where the bias needs a gradient, the operators it is made
// of.
#include "core/backend/attention.h"

#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/ops/checks.h"
#include "core/ops/product.h"

#include <cmath>

namespace whisker {
namespace {

AttentionGeometry checked_geometry(const Tensor& qkv, const Tensor& bias,
                                   const AttentionOptions& options) {
  check_computes("attention", "qkv", qkv);
  check_rank("attention", "qkv", qkv, 3);
  check_not_empty("attention", "qkv", qkv);
  const Shape& shape = qkv.shape();
  if (options.heads < 1 || options.heads > shape[2] || shape[2] % (3 * options.heads) != 0) {
    fail(ErrorKind::usage,
         "attention: expected qkv (N, tokens, 3 * heads * d), got {} for {} heads. Make the last "
         "extent a multiple of 3 * heads.",
         shape, options.heads);
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    fail(ErrorKind::usage, "attention: expected a dropout in [0, 1), got {} for qkv {}.",
         options.dropout, shape);
  }
  AttentionGeometry g{.batch = shape[0],
                      .tokens = shape[1],
                      .heads = options.heads,
                      .head_size = shape[2] / (3 * options.heads),
                      .bias = bias.defined(),
                      .dropout = options.dropout,
                      .key = options.key,
                      .dtype = qkv.dtype()};
  if (!g.bias) return g;
  check_alike("attention", "qkv", qkv, "bias", bias);
  const Shape scores{g.batch, g.heads, g.tokens, g.tokens};
  bool fits = bias.shape().rank() == 4;
  int64_t stride = 1;
  for (int axis = 3; fits && axis >= 0; --axis) {
    const int64_t extent = bias.extent(axis);
    fits = extent == 1 || extent == scores[axis];
    g.bias_stride[static_cast<size_t>(axis)] = extent == 1 ? 0 : stride;
    stride *= extent;
  }
  if (!fits) {
    fail(ErrorKind::usage,
         "attention: bias {} does not broadcast to (N, heads, tokens, tokens) = {}.", bias.shape(),
         scores);
  }
  return g;
}

Tensor unfused(const AttentionGeometry& g, const Tensor& qkv, const Tensor& bias) {
  const Shape apart{g.batch, g.tokens, 3, g.heads, g.head_size};
  const Shape one{g.batch, g.heads, g.tokens, g.head_size};
  const Tensor parts = transpose(qkv.reshape(apart), {2, 0, 3, 1, 4});
  const auto part = [&](int64_t i) { return slice(parts, 0, i, i + 1).reshape(one); };
  // Scaled first: in f16 the scores could overflow.
  const Tensor q = part(0) * g.scale();
  Tensor scores = product(q, part(1), false, true);
  if (bias.defined()) scores = scores + bias;
  const Tensor probabilities = dropout(softmax(scores), g.dropout, g.key);
  return transpose(matmul(probabilities, part(2)), {0, 2, 1, 3})
      .reshape({g.batch, g.tokens, g.width()});
}

}  // namespace

bool attention_is_fused(Device device, const AttentionGeometry& g) {
  AttentionKernels* const kernels = backend_of(device).attention();
  return kernels && kernels->fuses_some_batch(g, true);
}

Tensor attention(const Tensor& qkv, const Tensor& bias, const AttentionOptions& options) {
  const AttentionGeometry geometry = checked_geometry(qkv, bias, options);
  AttentionKernels* const kernels = backend_of(qkv.device()).attention();
  if (!kernels || needs_grad(bias) || !kernels->fuses(geometry, needs_grad(qkv))) {
    return unfused(geometry, qkv, bias);
  }
  const Tensor y = empty({geometry.batch, geometry.tokens, geometry.width()}, qkv.options());
  const Tensor log_sum_exp =
      empty({geometry.batch, geometry.heads, geometry.tokens}, {.device = qkv.device()});
  kernels->attention(geometry, {.qkv = qkv, .bias = bias}, {.y = y, .log_sum_exp = log_sum_exp});
  describe_op("heads {}{}", options.heads,
              options.dropout > 0 ? fmt::format(", dropout {}", options.dropout) : "");
  record("attention", {&qkv}, y,
         [kernels, geometry, qkv = save(qkv), bias = save(bias), y = save_output(y),
          log_sum_exp = save(log_sum_exp)](Gradients& g) {
           g.no_double_backward();
           kernels->attention_backward(
               geometry, {.qkv = qkv(g), .bias = bias(g), .y = y(g), .log_sum_exp = log_sum_exp(g)},
               g.dy(), g.grad_buffer(0));
         });
  return y;
}

}  // namespace whisker
