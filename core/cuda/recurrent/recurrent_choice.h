// Whether Whisker's persistent kernels or cuDNN compute recurrent layers: the autotune table's
// choice; in training, while searching is allowed, the faster by timing; else the persistent
// kernels where they fit. The reserve depends on it, so a choice is final.
#pragma once

#include "core/cuda/autotune/autotuned.h"
#include "core/cuda/recurrent/cudnn/cudnn_recurrent.h"
#include "core/cuda/recurrent/persistent/persistent_layers.h"

#include <map>
#include <optional>
#include <string>

namespace whisker::cuda {

class RecurrentChoice : Autotuned {
 public:
  using Autotuned::Autotuned;

  /// True: the persistent kernels. Timed only where `training`.
  bool by_own_kernels(const RecurrentGeometry& g, bool training, PersistentLayers own,
                      CudnnRecurrent cudnn);
  /// Forgets the choices: after a change of options or of the table.
  void clear() { choices_.clear(); }

 private:
  /// Nullopt where nothing could be timed.
  std::optional<bool> timed(const RecurrentGeometry& g, PersistentLayers& own,
                            CudnnRecurrent& cudnn);

  std::map<std::string, bool> choices_;  // by the table's key
};

}  // namespace whisker::cuda
