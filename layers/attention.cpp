// q, k and v of all heads are one product.
#include "layers/attention.h"

#include "core/ops/ops.h"
#include "core/tensor/philox.h"
#include "layers/initializers.h"

namespace whisker {

MultiHeadAttention::MultiHeadAttention(const Options& options) : options_(options) {
  const Options& o = options_;
  if (o.heads < 1 || o.channels < 1 || o.channels % o.heads != 0) {
    fail(ErrorKind::usage,
         "multi_head_attention: {} heads must divide the {} channels of the input", o.heads,
         o.channels);
  }
  if (!(o.dropout >= 0 && o.dropout < 1)) {
    fail(ErrorKind::usage, "multi_head_attention: expected a dropout in [0, 1), got {}", o.dropout);
  }
  const bool timm = o.names == Names::timm;
  const auto add = [&](const char* name, const char* timm_name, const Shape& shape, auto kind) {
    const bool is_weight = shape.rank() == 2;
    return add_parameter(timm ? timm_name : name, shape,
                         is_weight ? ParameterRole::weight : ParameterRole::bias,
                         make_initializer({.kind = kind}, is_weight ? fans_of(shape) : Fans{}));
  };
  using enum InitializerKind;
  const int64_t c = o.channels;
  in_weight_ = add("in_proj_weight", "qkv.weight", {3 * c, c}, glorot_uniform);
  if (o.bias) in_bias_ = add("in_proj_bias", "qkv.bias", {3 * c}, constant);
  out_weight_ = add("out_proj.weight", "proj.weight", {c, c}, torch_default);
  if (o.bias) out_bias_ = add("out_proj.bias", "proj.bias", {c}, constant);
}

Tensor MultiHeadAttention::forward(const Tensor& x, const Pass& pass) {
  const auto bias = [&](const auto& b) { return b ? b->value() : Tensor(); };
  const Shape shape = output_shape(x.shape());
  const Tensor tokens = x.reshape({shape[0], shape[1] * shape[2], shape[3]});
  const Tensor qkv = linear(tokens, in_weight_->value(), bias(in_bias_));
  const Tensor mixed = attention(qkv, {},
                                 {.heads = options_.heads,
                                  .dropout = pass.training ? options_.dropout : 0,
                                  .key = {.seed = pass.seed,
                                          .stream = stream_of(path()),
                                          .step = pass.step,
                                          .offset = pass.random_offset}});
  return linear(mixed, out_weight_->value(), bias(out_bias_)).reshape(shape);
}

std::string MultiHeadAttention::describe() const {
  return fmt::format("{} heads", options_.heads);
}

Shape MultiHeadAttention::output_shape(const Shape& x) const {
  if (x.rank() != 4 || x[3] != options_.channels) {
    fail(ErrorKind::usage, "multi_head_attention: expected images (N,H,W,{}), got {}",
         options_.channels, x);
  }
  return x;
}

OperatorCost MultiHeadAttention::cost(const Shape& x, bool x_needs_grad) const {
  const int64_t tokens = x[1] * x[2], channels = x[3];
  OperatorCost cost{
      .multiply_adds = x.count() * (4 * channels + 2 * tokens),
      .keeps_input = in_weight_->trainable(),
      .attention = AttentionGeometry{.batch = x[0],
                                     .tokens = tokens,
                                     .heads = options_.heads,
                                     .head_size = channels / options_.heads,
                                     .dropout = options_.dropout,
                                     .key = {}},
  };
  const bool inner = x_needs_grad || in_weight_->trainable() || (in_bias_ && in_bias_->trainable());
  if (inner) {
    cost.kept_elements = 4 * x.count();
    cost.kept_bytes = x[0] * options_.heads * tokens * element_bytes;
  } else if (out_weight_->trainable()) {
    cost.kept_elements = x.count();
  }
  return cost;
}

}  // namespace whisker
