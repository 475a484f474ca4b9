#include "core/cuda/chains/chain_plans.h"

#include "core/cuda/memory/capture.h"
#include "core/cuda/tuning/stopwatch.h"

#include <algorithm>
#include <limits>

namespace whisker::cuda {
namespace {

constexpr std::string_view joined_name = "joined";

}  // namespace

std::vector<ConvolutionRequest> ChainLink::passes() const {
  if (request.pass != ConvolutionPass::forward) return {request};
  std::vector<ConvolutionRequest> all(3, request);
  for (const size_t backward : {1, 2}) all[backward].sums = false;
  all[1].pass = ConvolutionPass::backward_input;
  all[2].pass = ConvolutionPass::backward_weights;
  return all;
}

std::string ChainLink::describe() const {
  return fmt::format("chain {}{}", request.describe(), given_sums ? " given sums" : "");
}

bool ChainPlans::possible(const ChainLink& link) {
  return std::ranges::all_of(link.passes(), [&](const ConvolutionRequest& pass) {
    return convolutions_.has_engine(pass);
  });
}

ChainPlans::Choice ChainPlans::untested(const ChainLink& link, const std::string& name) {
  if (options_.chaining == ConvolutionChaining::always) {
    return {.joined = possible(link), .settled = true};
  }
  const auto known = table_.find(PlanTable::Kind::convolution, name);
  if (!known) return {};
  return {.joined = *known == joined_name && possible(link), .settled = true};
}

float ChainPlans::time_of(const Way& way, float hopeless) {
  const auto graph = captured(context_, allocator_, way);
  return Stopwatch(context_, allocator_).median([&] { graph->replay(); }, hopeless);
}

ChainPlans::Choice ChainPlans::tested(const ChainLink& link, const std::string& name,
                                      const Way& joined, const Way& apart) {
  Choice choice{.joined = false, .settled = true};
  if (!possible(link)) return choice;
  try {
    // What steps and other trials left goes back first: this one takes memory of its own.
    allocator_.empty_cache();
    for (const Way* way : {&joined, &apart}) {  // settles what they consist of
      (*way)();
      (*way)();
    }
    if (!budget_.may_search(context_.stream())) return {};  // parts of it stayed untimed
    const SearchBudget::Use use(budget_);
    const float longest = time_of(apart, std::numeric_limits<float>::infinity());
    // What does not pay in this run may in a longer one.
    if (use.seconds() >= budget_.worth(longest)) return choice;
    choice.joined = time_of(joined, longest) < longest;
  } catch (const Error&) {
    // No memory to try them in, or an engine that fails after all: that is no choice for others.
    return choice;
  }
  table_.set(PlanTable::Kind::convolution, name,
             std::string(choice.joined ? joined_name : separate_name));
  return choice;
}

bool ChainPlans::prefers_joined(const ChainLink& link, const Way& joined, const Way& apart) {
  const std::string name = link.describe();
  auto found = choices_.find(name);
  if (found == choices_.end()) {
    found = choices_.emplace(name, untested(link, name)).first;
  } else if (!found->second.settled && budget_.may_search(context_.stream())) {
    found->second = tested(link, name, joined, apart);
  }
  return found->second.joined;
}

}  // namespace whisker::cuda
