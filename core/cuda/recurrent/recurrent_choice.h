// Whether our persistent kernels or cuDNN compute recurrent layers: the table's choice; in
// training, while searching is allowed, the faster by timing; else ours, where they fit. What
// forward leaves for backward depends on it, so a choice is not changed while anything of it is
// kept.
#pragma once

#include "core/cuda/recurrent/cudnn_recurrent.h"
#include "core/cuda/recurrent/persistent_layers.h"

#include <map>
#include <optional>
#include <string>

namespace whisker::cuda {

class RecurrentChoice {
 public:
  RecurrentChoice(Context& context, Allocator& allocator, const CudaOptions& options,
                  SearchBudget& budget, PlanTable& table)
      : context_(context),
        allocator_(allocator),
        options_(options),
        budget_(budget),
        table_(table) {}

  /// Timed only where `training`.
  bool ours(const RecurrentGeometry& g, bool training, PersistentLayers ours,
            CudnnRecurrent theirs);
  /// Forgets the choices: after a change of options or of the table.
  void clear() { ours_.clear(); }

 private:
  /// Nullopt where nothing could be timed.
  std::optional<bool> timed(const RecurrentGeometry& g, PersistentLayers& ours,
                            CudnnRecurrent& theirs);

  Context& context_;
  Allocator& allocator_;
  const CudaOptions& options_;
  SearchBudget& budget_;
  PlanTable& table_;
  std::map<std::string, bool> ours_;  // by the request in words
};

}  // namespace whisker::cuda
