// Dense layers one behind the other by their definition.
#pragma once

#include "core/linear_chains.h"

namespace whisker {

class Backend;

class ReferenceLinearChains final : public LinearChains {
 public:
  explicit ReferenceLinearChains(Backend& backend) : backend_(backend) {}

  /// Those of up to 64 features: larger ones stay what a study of a network is to show.
  size_t length(std::span<const LinearLink> links) const override;
  void forward(const Tensor& x, std::span<const LinearLink> links) override;
  void backward(const Tensor& x, std::span<const LinearLink> links, const Tensor& dy,
                const Tensor& dx, std::span<const LinearLinkGradients> out) override;

 private:
  Backend& backend_;
};

}  // namespace whisker
