// Which algorithm computes a convolution, decided once per request and kept with its compiled form.
//
// Note [Choosing a convolution]
// In this order: the table's choice; while searching is allowed, the fastest by timing of every
// engine that cuDNN's heuristics name and of our own kernels; else heuristic A's first engine that
// works. A request decided by the heuristic alone is decided again once searching is allowed. Where
// nothing else can compute a request, the direct kernel does.
// Deciding compiles, allocates and waits, none of which a capture allows: warm up first.
#pragma once

#include "core/cuda/allocator.h"
#include "core/cuda/convolution.h"
#include "core/cuda/plan_table.h"
#include "core/cuda/search_budget.h"
#include "core/cuda_library.h"

#include <unordered_map>

namespace whisker::cuda {

class ConvolutionPlans {
 public:
  ConvolutionPlans(Context& context, Allocator& allocator, const CudaOptions& options,
                   SearchBudget& budget, PlanTable& table)
      : context_(context),
        allocator_(allocator),
        options_(options),
        budget_(budget),
        table_(table) {}

  /// Computes `request` on the operands. False, having done nothing, when its bias and activation
  /// cannot be part of any algorithm: compute it without them, then apply them.
  bool run(const ConvolutionRequest& request, const ConvolutionOperands& operands);
  /// The name of the algorithm that runs `request`; "" before its first run.
  std::string name_of_choice(const ConvolutionRequest& request) const;
  /// Forgets the compiled choices: after a change of options or of the table.
  void clear() { choices_.clear(); }

 private:
  struct Choice {
    ConvolutionAlgorithmPointer algorithm;  // null: see run()
    bool settled = false;                   // by the table or by timing
  };
  Choice decide(const ConvolutionRequest& request, const ConvolutionOperands& operands);
  ConvolutionAlgorithmPointer from_table(const ConvolutionRequest& request) const;
  ConvolutionAlgorithmPointer first_that_works(const ConvolutionRequest& request) const;
  ConvolutionAlgorithmPointer fastest(const ConvolutionRequest& request,
                                      const ConvolutionOperands& operands);

  Context& context_;
  Allocator& allocator_;
  const CudaOptions& options_;
  SearchBudget& budget_;
  PlanTable& table_;
  std::unordered_map<ConvolutionRequest, Choice, RequestHash> choices_;
};

}  // namespace whisker::cuda
