// The backend's chains of small dense layers.
#pragma once

#include "core/cuda/memory/allocator.h"
#include "core/linear_chains.h"

namespace whisker::cuda {

class CudaLinearChains final : public LinearChains {
 public:
  CudaLinearChains(Context& context, Allocator& allocator)
      : context_(context), allocator_(allocator) {}

  size_t length(std::span<const LinearLink> links) const override;
  void forward(const Tensor& x, std::span<const LinearLink> links) override;
  void backward(const Tensor& x, std::span<const LinearLink> links, const Tensor& dy,
                const Tensor& dx, std::span<const LinearLinkGradients> out) override;

 private:
  Context& context_;
  Allocator& allocator_;
};

}  // namespace whisker::cuda
