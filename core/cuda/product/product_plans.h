// Which of cuBLASLt's algorithms computes a product: the table's choice, or the heuristic's first;
// for a request that comes back while searching is allowed, the fastest of its first sixteen by
// timing. What cuBLASLt does not take, the direct kernel does, and what is small in a process that
// is short-lived. See Note [Choosing a convolution] in core/cuda/convolution/convolution_plans.h.
#pragma once

#include "core/cuda/memory/allocator.h"
#include "core/cuda/product/product.h"
#include "core/cuda/tuning/plan_table.h"
#include "core/cuda/tuning/search_budget.h"
#include "core/cuda_library.h"

#include <unordered_map>

namespace whisker::cuda {

class ProductPlans {
 public:
  ProductPlans(Context& context, Allocator& allocator, const CudaOptions& options,
               SearchBudget& budget, PlanTable& table)
      : context_(context),
        allocator_(allocator),
        options_(options),
        budget_(budget),
        table_(table) {}

  /// Computes `request` on the operands; its alignments are filled in here. False, having done
  /// nothing, when cuBLASLt cannot apply the request's epilogue: ask without it, then apply it.
  bool run(ProductRequest request, const ProductOperands& operands);
  /// Forgets the compiled choices: after a change of options or of the table.
  void clear() { choices_.clear(); }

 private:
  struct Choice {
    std::unique_ptr<Product> product;
    std::optional<ProductAlgorithm> algorithm;  // nullopt: cuBLASLt has none
    bool settled = false;                       // nothing more is tried in this run
  };
  Choice decide(const ProductRequest& request, const ProductOperands& operands);
  /// Throws OutOfMemory where memory is short of timing the next candidate.
  void settle(const ProductRequest& request, const ProductOperands& operands, Choice& choice);

  Context& context_;
  Allocator& allocator_;
  const CudaOptions& options_;
  SearchBudget& budget_;
  PlanTable& table_;
  std::unordered_map<ProductRequest, Choice, ProductRequestHash> choices_;
};

}  // namespace whisker::cuda
