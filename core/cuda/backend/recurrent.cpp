// Who computes recurrent layers: the own persistent kernels where they fit and are not slower, else
// cuDNN; over sequences of their own lengths VariableLengthCudnn, in eager and in captured steps
// alike, so that both have the same bits.
#include "core/backend/recurrent.h"

#include "core/cuda/backend/algorithm_choices.h"
#include "core/cuda/ops/cuda_kernels.h"
#include "core/cuda/recurrent/cudnn/variable_length_cudnn.h"

namespace whisker::cuda {
namespace {

class Recurrent final : public RecurrentKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  int64_t reserve_bytes(const RecurrentGeometry& g) override {
    context_.enter();
    if (by_persistent_layers(g, true)) return persistent_layers().reserve_bytes(g);
    return g.lengths ? variable_length_cudnn().reserve_bytes(g)
                     : cudnn_recurrent().reserve_bytes(g);
  }

  void forward(const RecurrentGeometry& g, const RecurrentInputs& in,
               const RecurrentOutputs& out) override {
    context_.enter();
    if (by_persistent_layers(g, out.reserve.defined())) {
      return persistent_layers().forward(g, in, out);
    }
    if (g.lengths) return variable_length_cudnn().forward(g, in, out);
    cudnn_recurrent().forward(g, in, out);
  }

  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out,
                const RecurrentGradients& gradients) override {
    const int64_t left = out.reserve.defined() ? out.reserve.bytes() : 0;
    if (const int64_t wanted = reserve_bytes(g); left != wanted) {
      fail(ErrorKind::usage,
           "recurrent: backward expected {} bytes that forward left, got {}: options or plans were "
           "changed between the two. Change them between steps.",
           wanted, left);
    }
    if (by_persistent_layers(g, true)) {
      return persistent_layers().backward(g, in, out, gradients);
    }
    if (g.lengths) return variable_length_cudnn().backward(g, in, out, gradients);
    cudnn_recurrent().backward(g, in, out, gradients);
  }

 private:
  /// Whether they compute recurrent layers of this geometry: see RecurrentChoice::by_own_kernels.
  bool by_persistent_layers(const RecurrentGeometry& g, bool training) {
    return algorithms_.recurrent_choice().by_own_kernels(g, training, persistent_layers(),
                                                         cudnn_recurrent());
  }

  PersistentLayers persistent_layers() {
    return PersistentLayers(context_, allocator_, algorithms_.gemms(), tf32());
  }

  CudnnRecurrent cudnn_recurrent() {
    return CudnnRecurrent(context_, allocator_, algorithms_.recurrent());
  }

  VariableLengthCudnn variable_length_cudnn() {
    return VariableLengthCudnn(context_, allocator_, algorithms_.recurrent());
  }
};

}  // namespace

std::shared_ptr<RecurrentKernels> make_recurrent(CudaDevice& device) {
  return std::make_shared<Recurrent>(device);
}

}  // namespace whisker::cuda
