// The family of recurrent layers. Whisker's persistent kernels and cuDNN's algorithms are
// candidates for all passes of some layers: the autotune table's choice serves; in training, while
// searching is allowed, the fastest by timing; else the persistent kernels where they fit, and
// cuDNN's standard algorithm. The reserve depends on the choice, which is therefore final. See Note
// [Choosing an algorithm] in core/backend/autotuner.h.
#pragma once

#include "core/cuda/autotune/timed_algorithms.h"
#include "core/cuda/recurrent/recurrent_pass.h"

#include <array>
#include <string>

namespace whisker::cuda {

class RecurrentAlgorithms final : public RecurrentKernels, CudaKernels {
 public:
  explicit RecurrentAlgorithms(CudaDevice& device)
      : CudaKernels(device), tuner_(device.table, recurrent_rows) {}

  int64_t reserve_bytes(const RecurrentGeometry& g) override;
  void forward(const RecurrentGeometry& g, const RecurrentInputs& in,
               const RecurrentOutputs& out) override;
  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out,
                const RecurrentGradients& gradients) override;

  /// Forgets the choices: after a change of options or of the table.
  void clear() { tuner_.clear(); }

 private:
  struct Algorithm {
    std::string text;  // in the table
    RecurrentKernels* layers;
    const std::string& name() const { return text; }
  };
  /// The same in eager and in captured steps, so that both have the same bits. Timed only where
  /// `training`.
  RecurrentKernels& chosen(const RecurrentGeometry& g, bool training);
  float milliseconds(const RecurrentGeometry& g, RecurrentKernels& layers, float hopeless);

  PersistentLayers own_{device_};
  std::array<CudnnRecurrent, 3> cudnn_{CudnnRecurrent{device_, cudnn_recurrent_algorithms[0]},
                                       CudnnRecurrent{device_, cudnn_recurrent_algorithms[1]},
                                       CudnnRecurrent{device_, cudnn_recurrent_algorithms[2]}};
  Autotuner<RecurrentRequest, Algorithm> tuner_;
};

}  // namespace whisker::cuda
