// Chooses cuDNN's algorithm for recurrent layers: the autotune table's choice, or the standard one;
// in training, while searching is allowed, the fastest by timing. The reserve depends on the
// algorithm, so a choice is final.
#pragma once

#include "core/cuda/autotune/autotuned.h"
#include "core/cuda/recurrent/cudnn/cudnn_recurrent_plan.h"

#include <map>
#include <memory>
#include <string>

namespace whisker::cuda {

/// Text that identifies the geometry, but for dropout: the key of the autotune table.
std::string describe(const RecurrentGeometry& g, bool tf32);

class CudnnRecurrentPlans : Autotuned {
 public:
  using Autotuned::Autotuned;

  /// For a geometry without dropout; timed only where `training`. Throws device where cuDNN cannot.
  CudnnRecurrentPlan& plan(const RecurrentGeometry& g, bool training);
  /// Forgets the choices: after a change of options or of the table.
  void clear() { algorithms_.clear(); }

 private:
  std::unique_ptr<CudnnRecurrentPlan> make(const RecurrentGeometry& g, cudnnRNNAlgo_t algorithm);
  std::unique_ptr<CudnnRecurrentPlan> fastest(const RecurrentGeometry& g,
                                              const std::string& request);

  std::map<std::string, std::unique_ptr<CudnnRecurrentPlan>> algorithms_;  // by describe()
};

}  // namespace whisker::cuda
