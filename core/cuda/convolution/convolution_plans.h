// Which algorithm computes a convolution, decided once per request and kept with its compiled form.
//
// Note [Choosing a convolution]
// In this order: the table's choice; the thin kernel where there is one (libraries were measured at
// six times the floor of first layers); in a process that computes little, the direct kernel where
// it takes milliseconds; heuristic A's first engine that works and pads rightly (Note [Padding that
// differs by side]), as every engine must. What comes back and was not the table's choice is
// decided once more while searching is allowed, by timing our own kernels and every engine that
// cuDNN's heuristics name: what runs once is not worth it. Memory may be short of timing some of
// them, or any: the fastest of the others, or the choice at hand, then does for this run, and the
// table is told nothing. Nor is a choice taken for whose workspace there is no room, timed, from
// the table or, where there is another way, the first, but in a deterministic run, whose choices do
// not hang on free memory. What nothing else computes, the direct kernel does. A request with an
// epilogue, or of both gradients, may also be done separately, by plain requests and further
// kernels, which is the caller's to say how: where nothing joins them, or where that is faster and
// rounds no more often. (Timing runs them one after the other; in a capture the two gradients may
// be branches.) Deciding compiles, allocates and waits, none of which a capture allows: warm up
// first.
#pragma once

#include "core/cuda/convolution/cudnn_convolution.h"
#include "core/cuda/convolution/padding_trial.h"
#include "core/cuda/gpu/side_stream.h"
#include "core/cuda/memory/allocator.h"
#include "core/cuda/tuning/plan_table.h"
#include "core/cuda/tuning/search_budget.h"
#include "core/cuda_library.h"

#include <functional>
#include <optional>
#include <unordered_map>

namespace whisker::cuda {

/// The plan table's word for what is computed apart from the rest, by other requests.
inline constexpr std::string_view separate_name = "separate";

class ConvolutionPlans {
 public:
  ConvolutionPlans(Context& context, Allocator& allocator, const CudaOptions& options,
                   SearchBudget& budget, PlanTable& table)
      : context_(context),
        allocator_(allocator),
        options_(options),
        budget_(budget),
        table_(table),
        side_(context) {}

  /// What computes a request with an epilogue, or of both gradients, by other means.
  using Separately = std::function<void()>;

  /// Computes `request`, which has no epilogue.
  void run(const ConvolutionRequest& request, const ConvolutionOperands& operands);
  /// Computes `request`, or calls separately() where that is the choice.
  void run(const ConvolutionRequest& request, const ConvolutionOperands& operands,
           const Separately& separately);

  /// Computes two plain requests of one geometry, of which neither writes what the other reads or
  /// writes. A capture gets small ones as branches: each alone leaves a part of the GPU idle.
  void run_both(const ConvolutionRequest& one, const ConvolutionOperands& of_one,
                const ConvolutionRequest& other, const ConvolutionOperands& of_other);

  /// Computes `request`, which has sums, where that is known to be faster than rival(), which
  /// computes the same by other means; else returns false, having done nothing.
  bool run_if_faster(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                     const Separately& rival);
  /// True where a kernel of ours computes `request`, which is of both gradients.
  bool joins(const ConvolutionRequest& request) const;
  /// True when cuDNN has an engine for `request`.
  bool has_engine(const ConvolutionRequest& request) { return first_engine(request) != nullptr; }

  /// Forgets the compiled choices: after a change of options or of the table.
  void clear() { choices_.clear(); }

 private:
  struct Choice {
    ConvolutionAlgorithmPointer algorithm;  // null: separately
    bool settled = false;                   // nothing more is tried in this run
  };
  void run_or(const ConvolutionRequest& request, const ConvolutionOperands& operands,
              const Separately* separately);
  std::optional<Choice> from_table(const ConvolutionRequest& request);
  ConvolutionAlgorithmPointer untimed(const ConvolutionRequest& request);
  ConvolutionAlgorithmPointer first_engine(const ConvolutionRequest& request);
  /// Null where `engine` is not admissible() for `request` or cannot compute it, wants too large a
  /// workspace or fails the trial, which is of `request`, too.
  std::unique_ptr<CudnnConvolution> usable(std::shared_ptr<const cudnn::OperationGraph> graph,
                                           const ConvolutionRequest& request,
                                           const cudnn::EngineChoice& engine, PaddingTrial& trial);
  void run(const ConvolutionAlgorithm& algorithm, const ConvolutionOperands& operands);
  /// Settles what has been chosen for `request` without timing.
  void search(Choice& choice, const ConvolutionRequest& request,
              const ConvolutionOperands& operands, const Separately* separately);
  /// Throws OutOfMemory where memory is short of timing anything.
  ConvolutionAlgorithmPointer fastest(const ConvolutionRequest& request,
                                      const ConvolutionOperands& operands,
                                      const Separately* separately);
  /// The algorithm that was chosen for `request`; null when there is none yet.
  const ConvolutionAlgorithm* chosen(const ConvolutionRequest& request) const;
  ConvolutionSite site() const;

  Context& context_;
  Allocator& allocator_;
  const CudaOptions& options_;
  SearchBudget& budget_;
  PlanTable& table_;
  SideStream side_;
  std::unordered_map<ConvolutionRequest, Choice, RequestHash> choices_;
};

}  // namespace whisker::cuda
