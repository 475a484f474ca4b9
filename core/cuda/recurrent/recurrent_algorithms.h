// Who computes recurrent layers, Whisker's persistent kernels or cuDNN, and by which of its
// algorithms cuDNN does: the autotune table's choice; in training, while searching is allowed, the
// fastest by timing; else the persistent kernels, and cuDNN's standard algorithm. The reserve
// depends on both, so a choice is final. See Note [Choosing an algorithm] in
// core/backend/autotuner.h.
#pragma once

#include "core/backend/autotuner.h"
#include "core/backend/recurrent.h"
#include "core/cuda/autotune/timed_algorithms.h"
#include "core/cuda/recurrent/cudnn/cudnn_recurrent_plan.h"

#include <string>

namespace whisker::cuda {

struct RecurrentRequest {
  RecurrentGeometry geometry;  ///< any dropout is 1
  bool layers = false;         ///< who computes them; else by which of cuDNN's algorithms
  bool training = true;
  bool tf32 = false;
  bool operator==(const RecurrentRequest&) const = default;

  /// The key of the autotune table, which is the same in training and inference.
  std::string describe() const;
  size_t hash() const;
};

class RecurrentAlgorithms : CudaKernels {
 public:
  explicit RecurrentAlgorithms(CudaDevice& device)
      : CudaKernels(device),
        layers_(device.table, recurrent_rows),
        plans_(device.table, recurrent_rows) {}

  /// `own` or `cudnn`, which both compute `g`. Timed only where `training`.
  RecurrentKernels& choose(const RecurrentGeometry& g, bool training, RecurrentKernels& own,
                           RecurrentKernels& cudnn);
  /// `g` has no dropout. Timed only where `training`. Throws device where cuDNN cannot.
  CudnnRecurrentPlan& plan(const RecurrentGeometry& g, bool training);
  /// Forgets the choices: after a change of options or of the table.
  void clear() {
    layers_.clear();
    plans_.clear();
  }

 private:
  struct Layers {
    const char* text;  // in the table
    RecurrentKernels* kernels;
    const char* name() const { return text; }
  };
  float milliseconds(const RecurrentGeometry& g, RecurrentKernels& layers, float hopeless);
  float milliseconds(const RecurrentGeometry& g, CudnnRecurrentPlan& plan, float hopeless);

  Autotuner<RecurrentRequest, Layers> layers_;
  Autotuner<RecurrentRequest, CudnnRecurrentPlan> plans_;
};

}  // namespace whisker::cuda
