// Chooses cuDNN's algorithm for recurrent layers: the autotune table's choice, or the standard one;
// in training, while searching is allowed, the fastest by timing. The reserve depends on the
// algorithm, so a choice is final.
#pragma once

#include "core/cuda/autotune/autotune_table.h"
#include "core/cuda/autotune/search_budget.h"
#include "core/cuda/recurrent/cudnn/cudnn_recurrent_plan.h"
#include "core/nvidia/cuda_library.h"

#include <map>
#include <memory>
#include <string>

namespace whisker::cuda {

/// Text that identifies the geometry, but for dropout: the key of the autotune table.
std::string describe(const RecurrentGeometry& g, bool tf32);

class CudnnRecurrentPlans {
 public:
  CudnnRecurrentPlans(Context& context, Allocator& allocator, const CudaOptions& options,
                      SearchBudget& budget, AutotuneTable& table)
      : context_(context),
        allocator_(allocator),
        options_(options),
        budget_(budget),
        table_(table) {}

  /// For a geometry without dropout; timed only where `training`. Throws device where cuDNN cannot.
  CudnnRecurrentPlan& plan(const RecurrentGeometry& g, bool training);
  /// Forgets the choices: after a change of options or of the table.
  void clear() { algorithms_.clear(); }

 private:
  bool tf32() const { return options_.tf32 && !options_.deterministic; }
  std::unique_ptr<CudnnRecurrentPlan> make(const RecurrentGeometry& g, cudnnRNNAlgo_t algorithm);
  std::unique_ptr<CudnnRecurrentPlan> fastest(const RecurrentGeometry& g,
                                              const std::string& request);

  Context& context_;
  Allocator& allocator_;
  const CudaOptions& options_;
  SearchBudget& budget_;
  AutotuneTable& table_;
  std::map<std::string, std::unique_ptr<CudnnRecurrentPlan>> algorithms_;  // by describe()
};

}  // namespace whisker::cuda
