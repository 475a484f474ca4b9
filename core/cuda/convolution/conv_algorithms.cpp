// See Note [Choosing a convolution].
#include "core/cuda/convolution/conv_algorithms.h"

#include "core/cuda/autotune/driver_memory.h"
#include "core/cuda/autotune/stopwatch.h"
#include "core/cuda/convolution/few_channels/few_channels_conv.h"
#include "core/cuda/runtime/add_time.h"

#include <algorithm>
#include <limits>

namespace whisker::cuda {
namespace {

// Longest search for one request.
constexpr double longest_search_seconds = 1.5;
// What one of cuDNN's heuristics takes to propose engines, roughly.
constexpr double heuristic_seconds = 5e-3;

// For a request that no library computes.
ConvolutionAlgorithmPointer last_resort(const ConvolutionRequest& request) {
  if (auto direct = direct_convolution(request)) return direct;
  fail(ErrorKind::internal, "cuDNN: no engine computes {}", request.describe());
}

constexpr cudnnBackendHeurMode_t heuristics[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B,
                                                 CUDNN_HEUR_MODE_FALLBACK};

}  // namespace

ConvolutionSite ConvAlgorithms::site() const {
  return {.stream = context_.stream(),
          .multiprocessors = context_.multiprocessors(),
          .capability = context_.capability(),
          .shared_bytes = context_.properties().sharedMemPerBlockOptin,
          .multiprocessor_bytes = context_.properties().sharedMemPerMultiprocessor};
}

std::optional<ConvAlgorithms::Choice> ConvAlgorithms::from_table(
    const ConvolutionRequest& request) {
  const auto known = table_.find(convolution_rows, request.describe());
  if (!known) return std::nullopt;
  Choice choice{.algorithm = nullptr, .settled = true};
  if (*known == unfused_name && request.has_epilogue()) return choice;
  if (*known == few_channels_name) {
    choice.algorithm = few_channels_conv(request, site());
  } else if (*known == depthwise_name) {
    choice.algorithm = depthwise_convolution(request, site());
  } else if (*known == direct_name) {
    choice.algorithm = direct_convolution(request);
  } else if (const auto engine = cudnn::EngineChoice::parse(*known)) {
    const auto graph = graph_of(request);
    auto algorithm = graph ? usable(graph, request, *engine) : nullptr;
    const bool fits = algorithm && (options_.deterministic ||
                                    can_allocate(allocator_, algorithm->workspace_bytes()));
    if (fits) choice.algorithm = std::move(algorithm);
  }
  if (!choice.algorithm) return std::nullopt;
  return choice;
}

ConvolutionAlgorithmPointer ConvAlgorithms::untimed(const ConvolutionRequest& request) {
  if (auto own = few_channels_conv(request, site())) return own;
  if (auto own = depthwise_convolution(request, site())) return own;
  if (options_.without_libraries) return direct_convolution(request);
  return first_engine(request);
}

std::shared_ptr<const cudnn::OperationGraph> ConvAlgorithms::graph_of(
    const ConvolutionRequest& request) {
  return convolution_graph({.handle = context_.cudnn()}, padded_evenly(request));
}

ConvolutionAlgorithmPointer ConvAlgorithms::usable(
    std::shared_ptr<const cudnn::OperationGraph> graph, const ConvolutionRequest& request,
    const cudnn::EngineChoice& engine) {
  auto algorithm = CudnnConvolution::make(std::move(graph), padded_evenly(request), engine);
  if (!algorithm || algorithm->workspace_bytes() > options_.workspace_limit) return nullptr;
  if (!admissible(request, algorithm->notes(), options_.deterministic)) return nullptr;
  if (pads_evenly(request.geometry)) return algorithm;
  return pad_around(request, std::move(algorithm));
}

ConvolutionAlgorithmPointer ConvAlgorithms::first_engine(const ConvolutionRequest& request) {
  const auto graph = graph_of(request);
  if (!graph) return nullptr;
  for (const auto heuristic : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const auto& engine :
         convolution_engines(*graph, request, heuristic, options_.deterministic)) {
      if (auto algorithm = usable(graph, request, engine)) return algorithm;
    }
  }
  return nullptr;
}

void ConvAlgorithms::time_candidates(ConvolutionAlgorithmPointer& choice,
                                     const ConvolutionRequest& request,
                                     const ConvolutionOperands& operands, const Unfused* unfused) {
  // Forward, an unfused bias or activation rounds twice: used only where no algorithm fuses it.
  const bool compare =
      unfused && (request.pooled || request.residual || request.pass != ConvolutionPass::forward);
  if (compare) {  // first let its own requests settle
    (*unfused)();
    (*unfused)();
  }
  const SearchBudget::Use use(budget_);
  Stopwatch stopwatch(context_, allocator_);
  ConvolutionAlgorithmPointer best;
  const ConvolutionAlgorithm* winner = nullptr;  // null: unfused, or none
  float best_time = std::numeric_limits<float>::infinity();
  if (compare) best_time = stopwatch.median(*unfused);
  bool found = compare;
  std::optional<OutOfMemory> shortage;
  const auto is_new_winner = [&](const ConvolutionAlgorithm& candidate) {
    const DriverMemory workspace(allocator_, candidate.workspace_bytes());
    const float time =
        stopwatch.median([&] { candidate.run(site(), operands, workspace.data()); }, best_time);
    if (time >= best_time) return false;
    best_time = time;
    winner = &candidate;
    found = true;
    return true;
  };
  const auto attempt = [&](const auto& body) {
    try {
      body();
    } catch (const OutOfMemory& error) {
      shortage = error;
    } catch (const Error&) {
      // The engine fails: continue with the others.
    }
  };
  const auto consider = [&](const auto& make) {
    attempt([&] {
      ConvolutionAlgorithmPointer candidate = make();
      if (!candidate || (choice && candidate->name() == choice->name())) return;
      if (is_new_winner(*candidate)) best = std::move(candidate);
    });
  };
  const auto pays = [&](double seconds) {
    return !found ||
           use.seconds() + seconds <= std::min(longest_search_seconds, budget_.worth(best_time));
  };
  std::vector<cudnn::EngineChoice> seen;
  if (choice) {
    attempt([&] { is_new_winner(*choice); });
    if (const auto engine = cudnn::EngineChoice::parse(choice->name())) seen.push_back(*engine);
  }
  consider([&] { return few_channels_conv(request, site()); });
  consider([&] { return depthwise_convolution(request, site()); });
  const auto graph = pays(heuristic_seconds) ? graph_of(request) : nullptr;
  for (const auto heuristic : heuristics) {
    if (!graph || !pays(heuristic_seconds)) break;
    for (auto& engine : convolution_engines(*graph, request, heuristic, options_.deterministic)) {
      if (std::find(seen.begin(), seen.end(), engine) != seen.end()) continue;
      if (!pays(0)) break;
      consider([&] { return usable(graph, request, engine); });
      seen.push_back(std::move(engine));
    }
  }
  if (shortage && !found) throw *shortage;
  // Timing used memory outside the allocator, which may have a lower limit.
  if (winner) {
    const Scratch probe(allocator_, winner->workspace_bytes());
  }
  if (!shortage && (found || unfused)) {
    table_.set(convolution_rows, request.describe(),
               winner ? winner->name() : std::string(unfused_name));
  }
  if (winner != choice.get()) choice = std::move(best);
}

void ConvAlgorithms::search(Choice& choice, const ConvolutionRequest& request,
                            const ConvolutionOperands& operands, const Unfused* unfused) {
  choice.settled = true;
  try {
    time_candidates(choice.algorithm, request, operands, unfused);
  } catch (const OutOfMemory&) {
    // Untimed in this run: see Note [Choosing a convolution].
  }
}

void ConvAlgorithms::run_chosen(const ConvolutionRequest& request,
                                const ConvolutionOperands& operands, const Unfused* unfused) {
  auto known = choices_.find(request);
  const bool seen = known != choices_.end();
  if (!seen) {
    const AddTime timer(context_.start_times().plans);
    std::optional<Choice> first = from_table(request);
    if (!first) first = Choice{.algorithm = untimed(request), .settled = false};
    const int64_t workspace = first->algorithm ? first->algorithm->workspace_bytes() : 0;
    if (unfused && !options_.deterministic && workspace > 0 &&
        !can_allocate(allocator_, workspace)) {
      first->algorithm = nullptr;  // unfused may need less
    }
    known = choices_.emplace(request, std::move(*first)).first;
  }
  Choice& choice = known->second;  // a stable reference: unfused() may add choices
  if (seen && !choice.settled && budget_.may_search(context_.stream())) {
    search(choice, request, operands, unfused);
  }
  ConvolutionAlgorithmPointer& algorithm = choice.algorithm;
  if (!algorithm && !unfused) algorithm = last_resort(request);
  if (!algorithm) return (*unfused)();
  run(*algorithm, operands);
}

void ConvAlgorithms::run(const ConvolutionAlgorithm& algorithm,
                         const ConvolutionOperands& operands) {
  const Scratch workspace(allocator_, algorithm.workspace_bytes());
  algorithm.run(site(), operands, workspace.data());
}

void ConvAlgorithms::run(const ConvolutionRequest& request, const ConvolutionOperands& operands) {
  if (request.normalised || request.sums) {  // own kernels only
    return run(*depthwise_convolution(request, site()), operands);
  }
  run_chosen(request, operands, nullptr);
}

void ConvAlgorithms::run(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                         const Unfused& unfused) {
  run_chosen(request, operands, &unfused);
}

}  // namespace whisker::cuda
