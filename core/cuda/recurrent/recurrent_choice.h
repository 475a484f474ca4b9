// Whether Whisker's persistent kernels or cuDNN compute recurrent layers: the autotune table's
// choice; in training, while searching is allowed, the faster by timing; else the persistent
// kernels where they fit. The reserve depends on it, so a choice is final.
#pragma once

#include "core/cuda/autotune/autotuned.h"
#include "core/cuda/recurrent/cudnn/cudnn_recurrent.h"
#include "core/cuda/recurrent/persistent/persistent_layers.h"

#include <map>
#include <string>

namespace whisker::cuda {

class RecurrentChoice : Autotuned {
 public:
  using Autotuned::Autotuned;

  /// `own` or `cudnn`. Timed only where `training`.
  RecurrentKernels& choose(const RecurrentGeometry& g, bool training, PersistentLayers& own,
                           CudnnRecurrent& cudnn);
  /// Forgets the choices: after a change of options or of the table.
  void clear() { choices_.clear(); }

 private:
  /// True: the persistent kernels.
  bool by_own_kernels(const RecurrentGeometry& g, bool training, PersistentLayers& own,
                      CudnnRecurrent& cudnn);
  float milliseconds(const RecurrentGeometry& g, RecurrentKernels& layers, float hopeless);

  std::map<std::string, bool> choices_;  // by the table's key
};

}  // namespace whisker::cuda
