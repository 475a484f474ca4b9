// Who computes recurrent layers: the own persistent kernels where they fit and are not slower, else
// cuDNN; the same in eager and in captured steps, so that both have the same bits.
#include "core/backend/recurrent.h"

#include "core/cuda/backend/algorithm_choices.h"
#include "core/cuda/ops/cuda_kernels.h"

namespace whisker::cuda {
namespace {

class Recurrent final : public RecurrentKernels, CudaKernels {
 public:
  explicit Recurrent(CudaDevice& device) : CudaKernels(device) {}

  int64_t reserve_bytes(const RecurrentGeometry& g) override {
    return chosen(g, true).reserve_bytes(g);
  }
  void forward(const RecurrentGeometry& g, const RecurrentInputs& in,
               const RecurrentOutputs& out) override {
    chosen(g, out.reserve.defined()).forward(g, in, out);
  }
  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out,
                const RecurrentGradients& gradients) override {
    const int64_t left = out.reserve.defined() ? out.reserve.bytes() : 0;
    RecurrentKernels& layers = chosen(g, true);
    if (const int64_t wanted = layers.reserve_bytes(g); left != wanted) {
      fail(ErrorKind::usage,
           "recurrent: backward expected {} bytes that forward left, got {}: options or plans were "
           "changed between the two. Change them between steps.",
           wanted, left);
    }
    layers.backward(g, in, out, gradients);
  }

 private:
  RecurrentKernels& chosen(const RecurrentGeometry& g, bool training) {
    context_.enter();
    return algorithms_.recurrent_choice().choose(g, training, own_, cudnn_);
  }

  PersistentLayers own_{context_, allocator_, algorithms_.gemms(), options_};
  CudnnRecurrent cudnn_{context_, allocator_, algorithms_.recurrent()};
};

}  // namespace

std::shared_ptr<RecurrentKernels> make_recurrent(CudaDevice& device) {
  return std::make_shared<Recurrent>(device);
}

}  // namespace whisker::cuda
