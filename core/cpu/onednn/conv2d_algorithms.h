// Chooses the algorithm of a convolution once per request and keeps it compiled.
#pragma once

#include "core/backend/autotune_table.h"
#include "core/cpu/onednn/dnnl_convolution.h"
#include "core/cpu/support/allocator.h"
#include "core/cpu/support/options.h"

#include <mutex>
#include <unordered_map>

namespace whisker::cpu {

/// Compiled convolutions by request. Threads that compute at the same time take turns.
class Conv2dAlgorithms {
 public:
  Conv2dAlgorithms();
  /// Computes `request` on the operands, with the algorithm chosen here; false when oneDNN does not
  /// support it. The first call uses the table's choice; without one it times the candidates on the
  /// operands and adds the faster to the table. When memory is short of the choice or of timing,
  /// the algorithm with less memory runs until try_again(), and the table does not change. Throws
  /// OutOfMemory when that does not fit either, and at once for options.deterministic.
  bool run(Allocator& allocator, const CpuOptions& options, ConvolutionRequest request,
           const ConvolutionOperands& operands);
  /// The most scratch memory of the algorithms that run() chooses from.
  static int64_t scratch_bytes(const CpuOptions& options, ConvolutionRequest request);
  /// True once a call has found that oneDNN does not support `request`.
  bool hopeless(const ConvolutionRequest& request) const;
  /// Forgets choices made for lack of memory: after a change of its limit. Not for every step,
  /// where the algorithms of equal layers, and so their results, would alternate.
  void try_again() {
    std::erase_if(algorithms_, [](const auto& entry) { return entry.second.for_want_of_memory; });
  }
  /// Forgets every choice: after a change of options.
  void clear() {
    algorithms_.clear();
    table_.clear();
  }
  /// The choices timed or imported so far: see Note [Autotune table].
  const AutotuneTable& table() const { return table_; }
  /// AutotuneTable::add; compiled convolutions are compiled again by the new choices.
  void add_to_table(std::string_view text) {
    table_.add(text);
    algorithms_.clear();
  }

 private:
  using Plan = std::unique_ptr<DnnlConvolution>;  // null: not supported
  struct Choice {
    Plan plan;
    bool for_want_of_memory = false;
  };
  Choice choose(Allocator& allocator, const CpuOptions& options, ConvolutionRequest request,
                const ConvolutionOperands& operands);
  static Plan smaller(const CpuOptions& options, ConvolutionRequest request, int64_t than);

  mutable std::mutex mutex_;  // in run() and hopeless(): a plan holds its operands' addresses
  std::unordered_map<ConvolutionRequest, Choice, RequestHash> algorithms_;
  AutotuneTable table_;
};

}  // namespace whisker::cpu
