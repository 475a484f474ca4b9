// The family of recurrent layers: each call goes to the persistent kernels where they fit, else to
// cuDNN. The reserve depends on which it is, so this follows from geometry and options alone.
#include "core/cuda/recurrent/recurrent_pass.h"

namespace whisker::cuda {
namespace {

class Recurrent final : public RecurrentKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  int64_t reserve_bytes(const RecurrentGeometry& g) override {
    return layers_for(g).reserve_bytes(g);
  }

  void forward(const RecurrentGeometry& g, const RecurrentInputs& in,
               const RecurrentOutputs& out) override {
    layers_for(g).forward(g, in, out);
  }

  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out,
                const RecurrentGradients& gradients) override {
    const int64_t left = out.reserve.defined() ? out.reserve.bytes() : 0;
    RecurrentKernels& layers = layers_for(g);
    if (const int64_t wanted = layers.reserve_bytes(g); left != wanted) {
      fail(ErrorKind::usage,
           "recurrent: backward expected {} bytes that forward left, got {}: options were changed "
           "between the two. Change them between steps.",
           wanted, left);
    }
    layers.backward(g, in, out, gradients);
  }

 private:
  RecurrentKernels& layers_for(const RecurrentGeometry& g) {
    context_.enter();
    if (own_.fits(g)) return own_;
    return cudnn_;
  }

  PersistentLayers own_{device_};
  CudnnRecurrent cudnn_{device_};
};

}  // namespace

std::shared_ptr<RecurrentKernels> make_recurrent(CudaDevice& device) {
  return std::make_shared<Recurrent>(device);
}

}  // namespace whisker::cuda
