// See Note [Choosing a convolution].
#include "core/cuda/convolution/convolution_plans.h"

#include "core/cuda/convolution/conv2d_direct.h"
#include "core/cuda/convolution/thin_convolution.h"
#include "core/cuda/gpu/add_time.h"
#include "core/cuda/gpu/capturing.h"
#include "core/cuda/tuning/driver_memory.h"
#include "core/cuda/tuning/stopwatch.h"

#include <algorithm>
#include <limits>

namespace whisker::cuda {
namespace {

// One request may take this long to settle.
constexpr double longest_search_seconds = 1.5;

// Of a request that no library computes. A chain is made only of what cuDNN has engines for.
ConvolutionAlgorithmPointer last_resort(const ConvolutionRequest& request) {
  if (auto direct = direct_convolution(request)) return direct;
  fail(ErrorKind::internal, "cuDNN: no engine computes {}", request.describe());
}

constexpr cudnnBackendHeurMode_t heuristics[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B,
                                                 CUDNN_HEUR_MODE_FALLBACK};

int64_t multiply_adds(const Conv2dGeometry& g) {
  return g.n * g.h_out * g.w_out * g.c_out * g.kernel_h * g.kernel_w * (g.c / g.groups);
}

// True where the direct kernel takes milliseconds at most; for gradients of few filters it may take
// longer, but who lives for a moment does not learn.
bool is_quick(const ConvolutionRequest& request) {
  constexpr int64_t most = int64_t{1} << 29;
  return multiply_adds(request.geometry) <= most;
}

// True where a large GPU is not filled. Steps of batches of 32 with convolutions of up to 2.3
// billion multiply-adds were 2.5 % faster by branches, one with 18 billion 2.4 % slower (H200).
bool leaves_room(const ConvolutionRequest& request) {
  constexpr int64_t most = int64_t{1} << 32;
  return multiply_adds(request.geometry) <= most;
}

}  // namespace

ConvolutionSite ConvolutionPlans::site() const {
  return {.stream = context_.stream(),
          .multiprocessors = context_.multiprocessors(),
          .capability = context_.capability(),
          .shared_bytes = context_.properties().sharedMemPerBlockOptin,
          .multiprocessor_bytes = context_.properties().sharedMemPerMultiprocessor};
}

std::optional<ConvolutionPlans::Choice> ConvolutionPlans::from_table(
    const ConvolutionRequest& request) {
  const auto known = table_.find(PlanTable::Kind::convolution, request.describe());
  if (!known) return std::nullopt;
  Choice choice{.algorithm = nullptr, .settled = true};
  const bool parts = request.has_epilogue() || request.sums || request.both;
  if (*known == separate_name && parts) return choice;
  if (*known == thin_name) {
    choice.algorithm = thin_convolution(request, site());
  } else if (const auto engine = cudnn::EngineChoice::parse(*known)) {
    const auto graph = convolution_graph({.handle = context_.cudnn()}, request);
    PaddingTrial trial(context_, allocator_, request);
    auto algorithm = graph ? usable(graph, request, *engine, trial) : nullptr;
    const bool fits =
        algorithm && (options_.deterministic || has_room(allocator_, algorithm->workspace_bytes()));
    if (fits) choice.algorithm = std::move(algorithm);
  }
  if (!choice.algorithm) return std::nullopt;
  return choice;
}

ConvolutionAlgorithmPointer ConvolutionPlans::untimed(const ConvolutionRequest& request) {
  if (request.normalised) return first_engine(request);
  if (auto thin = thin_convolution(request, site())) return thin;
  if (options_.short_lived && is_quick(request)) return direct_convolution(request);
  return first_engine(request);
}

std::unique_ptr<CudnnConvolution> ConvolutionPlans::usable(
    std::shared_ptr<const cudnn::OperationGraph> graph, const ConvolutionRequest& request,
    const cudnn::EngineChoice& engine, PaddingTrial& trial) {
  auto algorithm = CudnnConvolution::make(std::move(graph), request, engine);
  if (!algorithm || algorithm->workspace_bytes() > options_.workspace_limit) return nullptr;
  if (!admissible(request, algorithm->notes(), options_.deterministic)) return nullptr;
  if (!trial.kept_by(engine)) return nullptr;
  return algorithm;
}

ConvolutionAlgorithmPointer ConvolutionPlans::first_engine(const ConvolutionRequest& request) {
  const auto graph = convolution_graph({.handle = context_.cudnn()}, request);
  if (!graph) return nullptr;
  PaddingTrial trial(context_, allocator_, request);
  for (const auto heuristic : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const auto& engine :
         convolution_engines(*graph, request, heuristic, options_.deterministic)) {
      if (auto algorithm = usable(graph, request, engine, trial)) return algorithm;
    }
  }
  return nullptr;
}

ConvolutionAlgorithmPointer ConvolutionPlans::fastest(const ConvolutionRequest& request,
                                                      const ConvolutionOperands& operands,
                                                      const Separately* separately) {
  // A bias or activation apart from the convolution rounds twice: only where nothing joins them.
  const bool rival =
      separately && (request.pooled || request.sums || request.pass != ConvolutionPass::forward);
  if (rival) {  // what it consists of is decided, timed and settled on its own
    (*separately)();
    (*separately)();
  }
  const SearchBudget::Use use(budget_);
  Stopwatch stopwatch(context_, allocator_);
  ConvolutionAlgorithmPointer best;
  float best_time = std::numeric_limits<float>::infinity();
  if (rival) best_time = stopwatch.median(*separately);
  bool found = rival;
  std::optional<OutOfMemory> shortage;
  const auto consider = [&](const auto& make) {
    try {
      ConvolutionAlgorithmPointer candidate = make();
      if (!candidate || candidate->workspace_bytes() > options_.workspace_limit) return;
      const DriverMemory workspace(allocator_, candidate->workspace_bytes());
      const float time =
          stopwatch.median([&] { candidate->run(site(), operands, workspace.data()); }, best_time);
      if (time < best_time) {
        best_time = time;
        best = std::move(candidate);
        found = true;
      }
    } catch (const OutOfMemory& error) {
      shortage = error;
    } catch (const Error&) {
      // An engine that fails after all: the others remain.
    }
  };
  consider([&] { return thin_convolution(request, site()); });
  if (const auto graph = convolution_graph({.handle = context_.cudnn()}, request)) {
    PaddingTrial trial(context_, allocator_, request);
    std::vector<cudnn::EngineChoice> seen;
    for (const auto heuristic : heuristics) {
      for (auto& engine : convolution_engines(*graph, request, heuristic, options_.deterministic)) {
        if (std::find(seen.begin(), seen.end(), engine) != seen.end()) continue;
        const double longest = std::min(longest_search_seconds, budget_.worth(best_time));
        if (found && use.seconds() > longest) break;
        consider([&] { return usable(graph, request, engine, trial); });
        seen.push_back(std::move(engine));
      }
    }
  }
  if (shortage && !found) throw *shortage;
  // It was timed in memory beside the allocator's, which may have a limit.
  if (best) {
    const Scratch room(allocator_, best->workspace_bytes());
  }
  if (!shortage && (found || separately)) {
    table_.set(PlanTable::Kind::convolution, request.describe(),
               best ? best->name() : std::string(separate_name));
  }
  return best;
}

void ConvolutionPlans::search(Choice& choice, const ConvolutionRequest& request,
                              const ConvolutionOperands& operands, const Separately* separately) {
  choice.settled = true;
  try {
    choice.algorithm = fastest(request, operands, separately);
  } catch (const OutOfMemory&) {
    // Then untimed, in this run: see Note [Choosing a convolution].
  }
}

void ConvolutionPlans::run_or(const ConvolutionRequest& request,
                              const ConvolutionOperands& operands, const Separately* separately) {
  auto known = choices_.find(request);
  const bool seen = known != choices_.end();
  if (!seen) {
    const AddTime timer(context_.start_times().plans);
    std::optional<Choice> first = from_table(request);
    if (!first) first = Choice{.algorithm = untimed(request), .settled = false};
    const int64_t workspace = first->algorithm ? first->algorithm->workspace_bytes() : 0;
    if (separately && !options_.deterministic && workspace > 0 &&
        !has_room(allocator_, workspace)) {
      first->algorithm = nullptr;  // separately it may take less
    }
    known = choices_.emplace(request, std::move(*first)).first;
  }
  Choice& choice = known->second;  // stays there, whatever is chosen for separately()
  if (seen && !choice.settled && budget_.may_search(context_.stream())) {
    search(choice, request, operands, separately);
  }
  ConvolutionAlgorithmPointer& algorithm = choice.algorithm;
  if (!algorithm && request.normalised) algorithm = untimed(request);
  if (!algorithm && !separately) algorithm = last_resort(request);
  if (!algorithm) return (*separately)();
  run(*algorithm, operands);
}

void ConvolutionPlans::run(const ConvolutionAlgorithm& algorithm,
                           const ConvolutionOperands& operands) {
  const Scratch workspace(allocator_, algorithm.workspace_bytes());
  algorithm.run(site(), operands, workspace.data());
}

void ConvolutionPlans::run(const ConvolutionRequest& request, const ConvolutionOperands& operands) {
  run_or(request, operands, nullptr);
}

void ConvolutionPlans::run(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                           const Separately& separately) {
  run_or(request, operands, &separately);
}

const ConvolutionAlgorithm* ConvolutionPlans::chosen(const ConvolutionRequest& request) const {
  const auto found = choices_.find(request);
  return found == choices_.end() ? nullptr : found->second.algorithm.get();
}

void ConvolutionPlans::run_both(const ConvolutionRequest& one, const ConvolutionOperands& of_one,
                                const ConvolutionRequest& other,
                                const ConvolutionOperands& of_other) {
  const ConvolutionAlgorithm* const first = chosen(one);
  const ConvolutionAlgorithm* const second = chosen(other);
  if (!first || !second || !leaves_room(one) || !capturing(context_.stream())) {
    run(one, of_one);
    run(other, of_other);
    return;
  }
  const Scratch workspace(allocator_, first->workspace_bytes());
  side_.run(
      [&](cudaStream_t stream) {
        ConvolutionSite aside = site();
        aside.stream = stream;
        first->run(aside, of_one, workspace.data());
      },
      [&] { run(*second, of_other); });
}

bool ConvolutionPlans::joins(const ConvolutionRequest& request) const {
  return has_thin(request, site());
}

bool ConvolutionPlans::run_if_faster(const ConvolutionRequest& request,
                                     const ConvolutionOperands& operands, const Separately& rival) {
  const bool always = options_.chaining == ConvolutionChaining::always;
  const auto known = choices_.find(request);
  if (known == choices_.end()) {
    std::optional<Choice> choice = from_table(request);
    if (!choice) {
      choice = Choice{.algorithm = always ? first_engine(request) : nullptr, .settled = false};
    }
    choices_.emplace(request, std::move(*choice));
  } else if (!known->second.settled && budget_.may_search(context_.stream())) {
    known->second.settled = true;
    if (has_engine(request)) search(known->second, request, operands, always ? nullptr : &rival);
  }
  const ConvolutionAlgorithm* const algorithm = chosen(request);
  if (!algorithm) return false;
  run(*algorithm, operands);
  return true;
}

}  // namespace whisker::cuda
