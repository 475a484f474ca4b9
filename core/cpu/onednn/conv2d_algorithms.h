// The algorithms of oneDNN's convolutions: see Note [Choosing an algorithm].
#pragma once

#include "core/backend/autotuner.h"
#include "core/cpu/onednn/dnnl_convolution.h"
#include "core/cpu/support/options.h"

#include <mutex>

namespace whisker::cpu {

/// Compiled convolutions by request. Threads that compute at the same time take turns.
class Conv2dAlgorithms {
 public:
  Conv2dAlgorithms(Allocator& allocator, const CpuOptions& options);
  /// Computes `request`; false where oneDNN does not support it. Where memory is short of the
  /// choice or of timing, the algorithm with less memory runs until try_again(), and the table
  /// does not change. Throws OutOfMemory where that does not fit either, and at once for
  /// options.deterministic.
  bool run(const ConvolutionRequest& request, const ConvolutionOperands& operands);
  /// The most scratch memory of the algorithms that run() chooses from.
  int64_t scratch_bytes(const ConvolutionRequest& request) const;
  /// True once a call has found that oneDNN does not support `request`.
  bool hopeless(const ConvolutionRequest& request);
  /// Forgets choices made for lack of memory: after a change of its limit. Not for every step,
  /// where the algorithms of equal layers, and so their results, would alternate.
  void try_again() { tuner_.forget_short_of_memory(); }
  /// Forgets every choice: after a change of options.
  void clear() {
    tuner_.clear();
    table_.clear();
  }
  /// The choices timed or imported so far: see Note [Autotune table].
  const AutotuneTable& table() const { return table_; }
  /// AutotuneTable::add; compiled convolutions are compiled again by the new choices.
  void add_to_table(std::string_view text) {
    table_.add(text);
    tuner_.clear();
  }

 private:
  using Tuner = Autotuner<ConvolutionRequest, DnnlConvolution>;

  Tuner::Choice choose(const ConvolutionRequest& request, const ConvolutionOperands& operands);

  Allocator& allocator_;
  const CpuOptions& options_;
  std::mutex mutex_;  // in run() and hopeless(): a compiled convolution holds operands' addresses
  AutotuneTable table_;
  Tuner tuner_;
};

}  // namespace whisker::cpu
