// The backend's pairs of batch norms: statistics of each, then passes over both.
#pragma once

#include "core/batch_norm_pairs.h"
#include "core/cuda/allocator.h"

namespace whisker::cuda {

class CudaBatchNormPairs final : public BatchNormPairs {
 public:
  CudaBatchNormPairs(Context& context, Allocator& allocator)
      : context_(context), allocator_(allocator) {}

  void normalise(const PairedNorm& first, const PairedNorm& second, const Tensor& y) override;
  void backward(const PairedNorm& first, const PairedNorm& second, const GradientParts& dy,
                const PairedGradients& of_first, const PairedGradients& of_second) override;

 private:
  void find_statistics(const PairedNorm& norm);

  Context& context_;
  Allocator& allocator_;
};

}  // namespace whisker::cuda
