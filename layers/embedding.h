// A table of vectors, looked up by index.
#pragma once

#include "layers/initializers.h"
#include "layers/module.h"

namespace whisker {

/// weight (entries, features); starts standard normal, as PyTorch's.
class Embedding final : public Module {
 public:
  struct Options {
    int64_t entries = 0;
    int64_t features = 0;
    InitializerSpec weight_initializer = {.kind = InitializerKind::normal, .deviation = 1};
  };
  /// Throws usage for extents below 1.
  explicit Embedding(const Options& options);

  /// x i64 of any shape -> its shape + (features).
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "embedding"; }
  std::string describe() const override;
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;

 private:
  Options options_;
  std::shared_ptr<Parameter> weight_;
};

}  // namespace whisker
