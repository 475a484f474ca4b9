// Recurrent layers by cuDNN. Layers without dropout between them are one call; with dropout every
// layer is one, as the masks are ours (core/dropout_mask.h). cuDNN wants all weights in one block:
// they are copied there before every call, and gradients out of it. Sequences of their own lengths
// are MaskedRecurrent's.
#pragma once

#include "core/cuda/recurrent/cudnn_recurrent_plans.h"

#include <vector>

namespace whisker::cuda {

class CudnnRecurrent {
 public:
  CudnnRecurrent(Context& context, Allocator& allocator, CudnnRecurrentPlans& plans)
      : context_(context), allocator_(allocator), plans_(plans) {}

  /// As Backend's methods of these names, for a `g` without lengths.
  int64_t reserve_bytes(const RecurrentGeometry& g);
  void forward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out);
  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out,
                const RecurrentGradients& gradients);

 private:
  struct Segment;
  /// The calls that make up the layers; `reserve_bytes`, unless null, is what they leave.
  std::vector<Segment> segments(const RecurrentGeometry& g, bool training, int64_t* reserve_bytes);

  Context& context_;
  Allocator& allocator_;
  CudnnRecurrentPlans& plans_;
};

}  // namespace whisker::cuda
