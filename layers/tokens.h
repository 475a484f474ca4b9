// What a vision transformer has between its patches and its classifier (Dosovitskiy et al. 2021): a
// class token before the patches, position embeddings, and the class token alone at the end. Tokens
// are an image of one row, (N,1,T,C).
#pragma once

#include "core/ops/ops.h"
#include "layers/module.h"

#include <memory>
#include <string>

namespace whisker {

/// (N,H,W,C) -> (N,1,K + H W,C): K trained tokens before the positions, row by row. The parameter
/// has the layer's name, shape (1,K,C).
class ClassToken final : public Module {
 public:
  explicit ClassToken(int64_t channels, int64_t count = 1);
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "class_token"; }
  Shape output_shape(const Shape& x) const override;

 private:
  int64_t channels_, count_;
  std::shared_ptr<Parameter> token_;
};

/// Adds a trained vector per position. The parameter has the layer's name, shape (1,T,C), where T
/// counts a `grid` of positions, which is interpolated where the image has another one (bicubic, as
/// timm does), and the tokens before it.
class PositionEmbedding final : public Module {
 public:
  struct Options {
    int64_t channels = 0;
    Pair grid = 1;       ///< of the parameter
    Pair image = 1;      ///< of what is embedded
    int64_t tokens = 0;  ///< before the grid: those of a class_token
  };
  explicit PositionEmbedding(const Options& options);
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "position_embedding"; }
  std::string describe() const override;
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;

 private:
  bool resizes() const { return !(options_.grid == options_.image); }
  const Tensor& resize_matrix(TensorOptions options);

  Options options_;
  std::shared_ptr<Parameter> positions_;
  Tensor matrix_;  // see resize_matrix
};

/// (N,H,W,C) -> (N,K C): the first K positions, which are the tokens of a class_token.
class FirstToken final : public Module {
 public:
  explicit FirstToken(int64_t count = 1) : count_(count) {}
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "first_token"; }
  Shape output_shape(const Shape& x) const override;

 private:
  int64_t count_;
};

}  // namespace whisker
