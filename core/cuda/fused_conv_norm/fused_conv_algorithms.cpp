#include "core/cuda/fused_conv_norm/fused_conv_algorithms.h"

#include "core/cuda/autotune/stopwatch.h"
#include "core/cuda/memory/capture.h"

#include <algorithm>
#include <limits>

namespace whisker::cuda {
namespace {

// Stored tables have these words.
constexpr std::string_view fused_name = "joined", key_name = "chain";

}  // namespace

std::vector<ConvolutionRequest> ConvNormKey::passes() const {
  if (request.pass != ConvolutionPass::forward) return {request};
  std::vector<ConvolutionRequest> all(3, request);
  for (const size_t backward : {1, 2}) all[backward].sums = false;
  all[1].pass = ConvolutionPass::backward_input;
  all[2].pass = ConvolutionPass::backward_weights;
  return all;
}

std::string ConvNormKey::describe() const {
  return fmt::format("{} {}{}", key_name, request.describe(), given_sums ? " given sums" : "");
}

bool FusedConvAlgorithms::possible(const ConvNormKey& key) {
  return std::ranges::all_of(
      key.passes(), [&](const ConvolutionRequest& pass) { return convolutions_.has_engine(pass); });
}

FusedConvAlgorithms::Choice FusedConvAlgorithms::untested(const ConvNormKey& key,
                                                          const std::string& name) {
  if (options_.conv_norm_fusion == ConvNormFusion::always) {
    return {.fused = possible(key), .settled = true};
  }
  const auto known = table_.find(AutotuneTable::Kind::convolution, name);
  if (!known) return {};
  return {.fused = *known == fused_name && possible(key), .settled = true};
}

float FusedConvAlgorithms::time_of(const std::function<void()>& way, float hopeless) {
  const auto graph = captured(context_, allocator_, way);
  return Stopwatch(context_, allocator_).median([&] { graph->replay(); }, hopeless);
}

FusedConvAlgorithms::Choice FusedConvAlgorithms::tested(const ConvNormKey& key,
                                                        const std::string& name,
                                                        const MakeBenchmark& make) {
  Choice choice{.fused = false, .settled = true};
  if (!possible(key)) return choice;
  try {
    // What steps and other benchmarks left goes back first: this one takes memory of its own.
    allocator_.empty_cache();
    const std::unique_ptr<FusionBenchmark> benchmark = make();
    const auto fused = [&] { benchmark->fused(); };
    const auto unfused = [&] { benchmark->unfused(); };
    for (int round = 0; round < 2; ++round) fused();  // settles what they consist of
    for (int round = 0; round < 2; ++round) unfused();
    if (!budget_.may_search(context_.stream())) return {};  // parts of it stayed untimed
    const SearchBudget::Use use(budget_);
    const float longest = time_of(unfused, std::numeric_limits<float>::infinity());
    // What does not pay in this run may in a longer one.
    if (use.seconds() >= budget_.worth(longest)) return choice;
    choice.fused = time_of(fused, longest) < longest;
  } catch (const Error&) {
    // No memory to try them in, or an engine that fails after all: that is no choice for others.
    return choice;
  }
  table_.set(AutotuneTable::Kind::convolution, name,
             std::string(choice.fused ? fused_name : unfused_name));
  return choice;
}

bool FusedConvAlgorithms::prefers_fused(const ConvNormKey& key, const MakeBenchmark& make) {
  const std::string name = key.describe();
  auto found = choices_.find(name);
  if (found == choices_.end()) {
    found = choices_.emplace(name, untested(key, name)).first;
  } else if (!found->second.settled && budget_.may_search(context_.stream())) {
    found->second = tested(key, name, make);
  }
  return found->second.fused;
}

}  // namespace whisker::cuda
