// The attention kernels.
#pragma once

#include "core/backend/geometry.h"
#include "core/backend/operands.h"

namespace whisker {

struct AttentionInputs {
  const Tensor& qkv;   ///< (batch, tokens, 3 * heads * head_size)
  const Tensor& bias;  ///< where g.bias: broadcast to (batch, heads, tokens, tokens)

  AttentionInputs map(auto&& fn) const { return {fn(qkv), fn(bias)}; }
};

struct AttentionOutputs {
  const Tensor& y;            ///< (batch, tokens, heads * head_size)
  const Tensor& log_sum_exp;  ///< f32 (batch, heads, tokens), of the rows of scores; or unwritten

  AttentionOutputs map(auto&& fn) const { return {fn(y), fn(log_sum_exp)}; }
};

struct AttentionSaved {
  const Tensor& qkv;
  const Tensor& bias;
  const Tensor& y;
  const Tensor& log_sum_exp;

  AttentionSaved map(auto&& fn) const { return {fn(qkv), fn(bias), fn(y), fn(log_sum_exp)}; }
};

/// In memory linear in the tokens. The mask of dropout is that of dropout() over the probabilities
/// (batch, heads, tokens, tokens).
class AttentionKernels {
 public:
  virtual ~AttentionKernels() = default;

  /// False where the operator is to run unfused. backward: attention_backward() will follow.
  virtual bool fuses(const AttentionGeometry& g, bool backward) = 0;
  /// fuses() for predictions of memory: of another batch of these tokens, where one has run.
  virtual bool fuses_some_batch(const AttentionGeometry& g, bool backward) {
    return fuses(g, backward);
  }
  virtual void attention(const AttentionGeometry& g, const AttentionInputs& in,
                         const AttentionOutputs& out) = 0;
  virtual void attention_backward(const AttentionGeometry& g, const AttentionSaved& saved,
                                  const Tensor& dy, const Tensor& dqkv) = 0;
};

/// Whether attention() in training is to run fused on `device`, which must be there.
bool attention_is_fused(Device device, const AttentionGeometry& g);

}  // namespace whisker
