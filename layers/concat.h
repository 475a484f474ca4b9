// Branches over one input, joined along the channels (a SqueezeNet fire module's expand step).
#pragma once

#include "layers/sequential.h"

#include <memory>
#include <vector>

namespace whisker {

class Concat final : public Module {
 public:
  struct Branch {
    std::string name;  ///< "" adds nothing to the names below
    std::shared_ptr<Sequential> layers;
  };
  /// Throws usage without branches.
  explicit Concat(std::vector<Branch> branches);

  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "concat"; }
  std::string describe() const override;
  /// Throws usage, naming the shapes, when branches differ off the last axis.
  Shape output_shape(const Shape& x) const override;
  int add_to(Plan& plan, int x) const override;

 private:
  std::vector<Branch> branches_;
};

}  // namespace whisker
