// Containers whose branches all read the same input: concatenated along the channels (a SqueezeNet
// fire module's expand step) or multiplied (a squeeze-and-excitation block).
#pragma once

#include "layers/sequential.h"

#include <memory>
#include <string>
#include <vector>

namespace whisker {

class Branches : public Module {
 public:
  struct Branch {
    std::string name;  ///< "" adds nothing to the names below
    std::shared_ptr<Sequential> layers;
  };
  std::string describe() const override;

 protected:
  explicit Branches(std::vector<Branch> branches);
  std::vector<Tensor> forward_branches(const Tensor& x, const Pass& pass);
  std::vector<int> add_branches_to(MemoryPlan& plan, int x) const;
  const std::vector<Branch>& branches() const { return branches_; }

 private:
  std::vector<Branch> branches_;
};

class Concat final : public Branches {
 public:
  /// Throws usage without branches.
  explicit Concat(std::vector<Branch> branches);

  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "concat"; }
  /// Throws usage, naming the shapes, when branches differ off the last axis.
  Shape output_shape(const Shape& x) const override;
  int add_to(MemoryPlan& plan, int x) const override;
};

/// The product of the branches, which broadcast as NumPy's arrays do. Beside images (N,H,W,C),
/// values (N,C) hold for each channel of the whole image. A branch without layers is the input
/// itself.
class Multiply final : public Branches {
 public:
  /// Throws usage for fewer than two branches.
  explicit Multiply(std::vector<Branch> branches);

  /// The layers behind the average, where this is a squeeze-and-excitation of images: the input
  /// times what layers make of its average over each image. Else null.
  Sequential* factors() const;
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "multiply"; }
  /// Throws usage, naming the shapes, when branches do not broadcast.
  Shape output_shape(const Shape& x) const override;
  int add_to(MemoryPlan& plan, int x) const override;
};

}  // namespace whisker
