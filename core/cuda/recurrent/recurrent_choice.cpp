#include "core/cuda/recurrent/recurrent_choice.h"

#include "core/cuda/recurrent/recurrent_trial.h"
#include "core/cuda/tuning/stopwatch.h"

#include <string_view>

namespace whisker::cuda {
namespace {

// As the table says them.
constexpr std::string_view our_kernels = "persistent kernels";
constexpr std::string_view library = "cudnn";

}  // namespace

std::optional<bool> RecurrentChoice::timed(const RecurrentGeometry& g, PersistentLayers& ours,
                                           CudnnRecurrent& theirs) {
  const auto time = [&](auto& layers, float hopeless) {
    RecurrentTrial trial(context_, g, layers.reserve_bytes(g));
    const auto both_passes = [&] {
      layers.forward(g, trial.in, trial.out);
      layers.backward(g, trial.in, trial.out, trial.gradients);
    };
    // Products and algorithms within are chosen, and counted, by themselves.
    both_passes();
    both_passes();
    const SearchBudget::Use use(budget_);
    return Stopwatch(context_, allocator_).median(both_passes, hopeless);
  };
  try {
    const float our_time = time(ours, std::numeric_limits<float>::infinity());
    return our_time <= time(theirs, our_time);
  } catch (const Error&) {
    return std::nullopt;  // no memory to try it, or cuDNN does not take these layers
  }
}

bool RecurrentChoice::ours(const RecurrentGeometry& g, bool training, PersistentLayers ours,
                           CudnnRecurrent theirs) {
  if (!ours.take(g)) return false;
  const bool tf32 = options_.tf32 && !options_.deterministic;
  const std::string request =
      fmt::format("layers {}{}", describe(g, tf32), g.dropout > 0 ? " dropout" : "");
  if (const auto decided = ours_.find(request); decided != ours_.end()) return decided->second;
  std::optional<bool> choice;
  if (const auto known = table_.find(PlanTable::Kind::recurrent, request)) {
    if (*known == our_kernels) choice = true;
    if (*known == library) choice = false;
  }
  // Over sequences of their own lengths cuDNN has nothing to compare with.
  const bool may_time = training && !g.lengths && !options_.deterministic;
  if (!choice && may_time && budget_.may_search(context_.stream())) {
    choice = timed(g, ours, theirs);
    if (choice) {
      table_.set(PlanTable::Kind::recurrent, request, std::string(*choice ? our_kernels : library));
    }
  }
  const bool result = choice.value_or(true);
  if (training) ours_[request] = result;
  return result;
}

}  // namespace whisker::cuda
