// Chooses the algorithm of a convolution once per request and keeps it compiled.
//
// Note [Choosing a convolution]
// The first of these that applies:
//  1. the autotune table's choice;
//  2. the few-channel kernel (libraries take six times the memory floor on first layers), the
//     depthwise kernels;
//  3. the first engine of heuristic A that works;
//  4. the direct kernel.
// A request that comes again, while searching is allowed and the table had no choice, is decided
// once more by timing the present choice, the own kernels and, as long as that can pay in this run,
// the engines that cuDNN's heuristics propose. Where memory is short of timing, this run uses the
// best so far and the table gets no row. A choice whose workspace does not fit in memory is
// dropped, except in a deterministic run, whose choices must not depend on free memory. A request
// with an epilogue may also run unfused: as plain requests and further kernels, which the caller
// provides. That is chosen where nothing fuses it, or where it is faster and rounds no more often,
// or to add a residual (an addition of its own rounds as often). Deciding compiles, allocates and
// waits, which a capture does not allow: warm up first.
#pragma once

#include "core/backend/autotuner.h"
#include "core/cuda/autotune/autotuned.h"
#include "core/cuda/convolution/cudnn/cudnn_convolution.h"
#include "core/cuda/convolution/cudnn/padded_convolution.h"

#include <functional>
#include <optional>
#include <unordered_map>

namespace whisker::cuda {

/// Name of the unfused choice in the autotune table.
inline constexpr std::string_view unfused_name = "unfused";

class ConvAlgorithms : Autotuned {
 public:
  using Autotuned::Autotuned;

  /// Computes a request with an epilogue by plain requests and kernels.
  using Unfused = std::function<void()>;

  /// Computes `request`, which has no epilogue.
  void run(const ConvolutionRequest& request, const ConvolutionOperands& operands);
  /// Computes `request`, or calls unfused() where that is the choice.
  void run(const ConvolutionRequest& request, const ConvolutionOperands& operands,
           const Unfused& unfused);

  /// Forgets the compiled choices: after a change of options or of the table.
  void clear() { choices_.clear(); }

 private:
  struct Choice {
    ConvolutionAlgorithmPointer algorithm;  // null: unfused
    bool settled = false;                   // final in this run
  };
  void run_chosen(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                  const Unfused* unfused);
  std::optional<Choice> from_table(const ConvolutionRequest& request);
  ConvolutionAlgorithmPointer untimed(const ConvolutionRequest& request);
  ConvolutionAlgorithmPointer first_engine(const ConvolutionRequest& request);
  /// What cuDNN is asked for, see Note [Padding that differs by side]; null where it has no such
  /// operation.
  std::shared_ptr<const cudnn::OperationGraph> graph_of(const ConvolutionRequest& request);
  /// Null where `engine` is not admissible() or cannot compute `request`, or needs too large a
  /// workspace besides padded images. `graph` is graph_of(request).
  ConvolutionAlgorithmPointer usable(std::shared_ptr<const cudnn::OperationGraph> graph,
                                     const ConvolutionRequest& request,
                                     const cudnn::EngineChoice& engine);
  void run(const ConvolutionAlgorithm& algorithm, const ConvolutionOperands& operands);
  /// Replaces an untimed choice by the fastest.
  void search(Choice& choice, const ConvolutionRequest& request,
              const ConvolutionOperands& operands, const Unfused* unfused);
  /// Makes `choice` the fastest; null: unfused, or nothing works. Throws OutOfMemory, without a
  /// change, when memory does not suffice to time anything, or for the fastest.
  void time_candidates(ConvolutionAlgorithmPointer& choice, const ConvolutionRequest& request,
                       const ConvolutionOperands& operands, const Unfused* unfused);
  ConvolutionSite site() const;

  std::unordered_map<ConvolutionRequest, Choice, RequestHash> choices_;
};

}  // namespace whisker::cuda
