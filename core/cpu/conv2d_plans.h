// Which algorithm computes a convolution, decided once per request and kept with its compiled form.
#pragma once

#include "core/cpu/allocator.h"
#include "core/cpu/cpu_backend.h"
#include "core/cpu/dnnl_convolution.h"
#include "core/cpu/plan_table.h"

#include <unordered_map>

namespace whisker::cpu {

struct RequestHash {
  size_t operator()(const ConvolutionRequest& request) const;
};

/// Compiled convolutions by request. Used by the one thread that computes.
class Conv2dPlans {
 public:
  /// Computes `request` (its algorithm is chosen here) on the operands; false when oneDNN has
  /// nothing for it. The first call for a request takes the table's choice or, where it has none,
  /// times the candidates on the operands themselves and adds the faster one to the table. Where
  /// memory is short of what that one takes, or of what timing takes, the algorithm that takes less
  /// is run until try_again(), and the table stays as it is: other runs may have the memory. Throws
  /// OutOfMemory when there is not even as much, and for options.deterministic at once.
  bool run(Allocator& allocator, const CpuOptions& options, ConvolutionRequest request,
           const ConvolutionOperands& operands);
  /// True once a call has found that oneDNN has nothing for `request`.
  bool hopeless(const ConvolutionRequest& request) const;
  /// Forgets what was chosen for want of memory: after a change of its limit. Not from step to
  /// step, where layers of one geometry would take turns and their results with them.
  void try_again() {
    std::erase_if(plans_, [](const auto& entry) { return entry.second.for_want_of_memory; });
  }
  /// Forgets every choice: after a change of options.
  void clear() {
    plans_.clear();
    table_.clear();
  }
  /// The choices timed or imported so far: see Note [Plan table].
  const PlanTable& table() const { return table_; }
  /// PlanTable::add; plans compiled before are made again by the new choices.
  void add_to_table(std::string_view text) {
    table_.add(text);
    plans_.clear();
  }

 private:
  using Plan = std::unique_ptr<DnnlConvolution>;  // null: nothing there
  struct Choice {
    Plan plan;
    bool for_want_of_memory = false;
  };
  Choice choose(Allocator& allocator, const CpuOptions& options, ConvolutionRequest request,
                const ConvolutionOperands& operands);
  static Plan smaller(const CpuOptions& options, ConvolutionRequest request, int64_t than);

  std::unordered_map<ConvolutionRequest, Choice, RequestHash> plans_;
  PlanTable table_;
};

}  // namespace whisker::cpu
