// Which of cuDNN's algorithms computes recurrent layers: the table's choice, or the standard one;
// in training, while searching is allowed, the fastest by timing. What forward leaves for backward
// depends on the algorithm, so a choice is not changed while anything of it is kept.
#pragma once

#include "core/cuda/recurrent/cudnn_recurrent_plan.h"
#include "core/cuda/tuning/plan_table.h"
#include "core/cuda/tuning/search_budget.h"
#include "core/cuda_library.h"

#include <map>
#include <memory>
#include <string>

namespace whisker::cuda {

/// The layers in words, the same only for equal geometries (but for dropout): a key of the table.
std::string describe(const RecurrentGeometry& g, bool tf32);

class CudnnRecurrentPlans {
 public:
  CudnnRecurrentPlans(Context& context, Allocator& allocator, const CudaOptions& options,
                      SearchBudget& budget, PlanTable& table)
      : context_(context),
        allocator_(allocator),
        options_(options),
        budget_(budget),
        table_(table) {}

  /// Of a geometry without dropout; timed only where `training`. Throws device where cuDNN cannot.
  CudnnRecurrentPlan& plan(const RecurrentGeometry& g, bool training);
  /// Forgets the choices: after a change of options or of the table.
  void clear() { plans_.clear(); }

 private:
  bool tf32() const { return options_.tf32 && !options_.deterministic; }
  std::unique_ptr<CudnnRecurrentPlan> make(const RecurrentGeometry& g, cudnnRNNAlgo_t algorithm);
  std::unique_ptr<CudnnRecurrentPlan> fastest(const RecurrentGeometry& g,
                                              const std::string& request);

  Context& context_;
  Allocator& allocator_;
  const CudaOptions& options_;
  SearchBudget& budget_;
  PlanTable& table_;
  std::map<std::string, std::unique_ptr<CudnnRecurrentPlan>> plans_;  // by the request in words
};

}  // namespace whisker::cuda
