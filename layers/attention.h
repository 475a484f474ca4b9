// Multi-head self-attention over the positions of an image (Vaswani et al. 2017).
#pragma once

#include "layers/module.h"

#include <memory>
#include <string>

namespace whisker {

/// (N,H,W,C) -> (N,H,W,C): all H W positions of an image attend to each other.
class MultiHeadAttention final : public Module {
 public:
  /// Names of the parameters in weights files.
  enum class Names : uint8_t {
    pytorch,  ///< in_proj_weight, in_proj_bias, out_proj.weight, out_proj.bias
    timm,     ///< qkv.weight, qkv.bias, proj.weight, proj.bias
  };
  struct Options {
    int64_t channels = 0;
    int64_t heads = 1;   ///< divides the channels
    double dropout = 0;  ///< of the probabilities, in training
    bool bias = true;
    Names names = Names::pytorch;
  };
  explicit MultiHeadAttention(const Options& options);

  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "multi_head_attention"; }
  std::string describe() const override;
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;
  const Options& options() const { return options_; }

 private:
  Options options_;
  std::shared_ptr<Parameter> in_weight_, in_bias_, out_weight_, out_bias_;
};

}  // namespace whisker
