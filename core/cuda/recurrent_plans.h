// Which of cuDNN's algorithms computes recurrent layers: the table's choice, or the standard one;
// in training, while searching is allowed, the fastest by timing at the geometry's first use; and
// whether our own kernels do. What forward leaves for backward depends on the choice, so it is
// never changed afterwards.
#pragma once

#include "core/cuda/plan_table.h"
#include "core/cuda/recurrent_plan.h"
#include "core/cuda/search_budget.h"
#include "core/cuda_library.h"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace whisker::cuda {

class RecurrentPlans {
 public:
  RecurrentPlans(Context& context, Allocator& allocator, const CudaOptions& options,
                 SearchBudget& budget, PlanTable& table)
      : context_(context),
        allocator_(allocator),
        options_(options),
        budget_(budget),
        table_(table) {}

  /// Of a geometry without dropout; timed only where `training`. Throws device where cuDNN cannot.
  RecurrentPlan& plan(const RecurrentGeometry& g, bool training);
  /// Whether our kernels compute these layers rather than cuDNN; nullopt: not decided yet.
  std::optional<bool> ours(const RecurrentGeometry& g) const;
  /// Decides it, for good where it was `timed`.
  void set_ours(const RecurrentGeometry& g, bool ours, bool timed);
  /// Whether anything may be timed now, and what that is counted in.
  bool may_search() const {
    return !options_.deterministic && budget_.may_search(context_.stream());
  }
  SearchBudget& budget() { return budget_; }
  /// Forgets the choices: after a change of options or of the table.
  void clear() {
    plans_.clear();
    ours_.clear();
  }

 private:
  bool tf32() const { return options_.tf32 && !options_.deterministic; }
  std::unique_ptr<RecurrentPlan> make(const RecurrentGeometry& g, cudnnRNNAlgo_t algorithm);
  std::unique_ptr<RecurrentPlan> fastest(const RecurrentGeometry& g, const std::string& request);

  Context& context_;
  Allocator& allocator_;
  const CudaOptions& options_;
  SearchBudget& budget_;
  PlanTable& table_;
  // By the request in words.
  std::map<std::string, std::unique_ptr<RecurrentPlan>> plans_;
  std::map<std::string, bool> ours_;
};

}  // namespace whisker::cuda
