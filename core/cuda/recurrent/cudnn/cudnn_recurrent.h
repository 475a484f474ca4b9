// Recurrent layers by cuDNN. Without dropout all layers are one call; with dropout each layer is
// one, since Whisker draws the masks (core/backend/dropout_mask.h). cuDNN reads all weights from
// one block: they are copied into it before every call, and gradients out of it afterwards.
// Sequences of different lengths: VariableLengthCudnn.
#pragma once

#include "core/cuda/recurrent/cudnn/cudnn_recurrent_plans.h"

#include <vector>

namespace whisker::cuda {

class CudnnRecurrent {
 public:
  CudnnRecurrent(Context& context, Allocator& allocator, CudnnRecurrentPlans& plans)
      : context_(context), allocator_(allocator), algorithms_(plans) {}

  /// As the methods of RecurrentKernels, for a `g` without lengths.
  int64_t reserve_bytes(const RecurrentGeometry& g);
  void forward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out);
  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out,
                const RecurrentGradients& gradients);

 private:
  struct Segment;
  /// The calls that compute the layers; `reserve_bytes`, unless null, receives their reserve.
  std::vector<Segment> segments(const RecurrentGeometry& g, bool training, int64_t* reserve_bytes);

  Context& context_;
  Allocator& allocator_;
  CudnnRecurrentPlans& algorithms_;
};

}  // namespace whisker::cuda
