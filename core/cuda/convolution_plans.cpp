// See Note [Choosing a convolution].
#include "core/cuda/convolution_plans.h"

#include "core/cuda/conv2d_direct.h"
#include "core/cuda/cudnn_convolution.h"
#include "core/cuda/stopwatch.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

// One request may take this long to settle; compiling some engines takes a second each.
constexpr double longest_search_seconds = 1.5;

constexpr cudnnBackendHeurMode_t heuristics[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B,
                                                 CUDNN_HEUR_MODE_FALLBACK};

bool has_epilogue(const ConvolutionRequest& request) {
  return request.geometry.bias || request.geometry.activation.kind != Activation::none;
}

}  // namespace

ConvolutionAlgorithmPointer ConvolutionPlans::from_table(const ConvolutionRequest& request) const {
  const auto known = table_.find(PlanTable::Kind::convolution, request.describe());
  if (!known) return nullptr;
  const auto engine = cudnn::EngineChoice::parse(*known);
  if (!engine) return nullptr;
  auto graph = convolution_graph({.handle = context_.cudnn()}, request);
  if (!graph) return nullptr;
  auto algorithm = CudnnConvolution::make(std::move(graph), request, *engine);
  const bool usable = algorithm && algorithm->workspace_bytes() <= options_.workspace_limit &&
                      admissible(request, algorithm->notes(), options_.deterministic);
  if (!usable) return nullptr;
  return algorithm;
}

ConvolutionAlgorithmPointer ConvolutionPlans::first_that_works(
    const ConvolutionRequest& request) const {
  const auto graph = convolution_graph({.handle = context_.cudnn()}, request);
  if (!graph) return nullptr;
  for (const auto heuristic : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const auto& engine :
         convolution_engines(*graph, request, heuristic, options_.deterministic)) {
      auto algorithm = CudnnConvolution::make(graph, request, engine);
      if (algorithm && algorithm->workspace_bytes() <= options_.workspace_limit) return algorithm;
    }
  }
  return nullptr;
}

ConvolutionAlgorithmPointer ConvolutionPlans::fastest(const ConvolutionRequest& request,
                                                      const ConvolutionOperands& operands) {
  const SearchBudget::Use use(budget_);
  const ConvolutionSite site{.stream = context_.stream(), .cudnn = context_.cudnn()};
  Stopwatch stopwatch(context_, allocator_);
  ConvolutionAlgorithmPointer best;
  float best_time = std::numeric_limits<float>::infinity();
  const auto consider = [&](ConvolutionAlgorithmPointer candidate) {
    if (!candidate || candidate->workspace_bytes() > options_.workspace_limit) return;
    try {
      const Scratch workspace(allocator_, candidate->workspace_bytes());
      const float time =
          stopwatch.median([&] { candidate->run(site, operands, workspace.data()); }, best_time);
      if (time < best_time) {
        best_time = time;
        best = std::move(candidate);
      }
    } catch (const Error&) {
      // No memory for its workspace, or an engine that fails after all: the others remain.
    }
  };
  if (const auto graph = convolution_graph({.handle = site.cudnn}, request)) {
    std::vector<cudnn::EngineChoice> seen;
    for (const auto heuristic : heuristics) {
      for (auto& engine : convolution_engines(*graph, request, heuristic, options_.deterministic)) {
        if (std::find(seen.begin(), seen.end(), engine) != seen.end()) continue;
        if (best && use.seconds() > longest_search_seconds) break;
        consider(CudnnConvolution::make(graph, request, engine));
        seen.push_back(std::move(engine));
      }
    }
  }
  if (best) table_.set(PlanTable::Kind::convolution, request.describe(), best->name());
  return best;
}

ConvolutionPlans::Choice ConvolutionPlans::decide(const ConvolutionRequest& request,
                                                  const ConvolutionOperands& operands) {
  if (auto known = from_table(request)) return {.algorithm = std::move(known), .settled = true};
  if (budget_.may_search(context_.stream())) {
    return {.algorithm = fastest(request, operands), .settled = true};
  }
  return {.algorithm = first_that_works(request), .settled = false};
}

bool ConvolutionPlans::run(const ConvolutionRequest& request, const ConvolutionOperands& operands) {
  auto found = choices_.find(request);
  if (found == choices_.end() ||
      (!found->second.settled && budget_.may_search(context_.stream()))) {
    Choice choice = decide(request, operands);
    if (!choice.algorithm && !has_epilogue(request)) choice.algorithm = direct_convolution(request);
    found = choices_.insert_or_assign(request, std::move(choice)).first;
  }
  const ConvolutionAlgorithm* const algorithm = found->second.algorithm.get();
  if (!algorithm) return false;
  const Scratch workspace(allocator_, algorithm->workspace_bytes());
  algorithm->run({.stream = context_.stream(), .cudnn = context_.cudnn()}, operands,
                 workspace.data());
  return true;
}

std::string ConvolutionPlans::name_of_choice(const ConvolutionRequest& request) const {
  const auto found = choices_.find(request);
  if (found == choices_.end() || !found->second.algorithm) return "";
  return found->second.algorithm->name();
}

}  // namespace whisker::cuda
