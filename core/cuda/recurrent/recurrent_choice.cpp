#include "core/cuda/recurrent/recurrent_choice.h"

#include "core/cuda/autotune/stopwatch.h"
#include "core/cuda/recurrent/recurrent_benchmark.h"

#include <string_view>

namespace whisker::cuda {
namespace {

// Choices in the autotune table.
constexpr std::string_view persistent = "persistent kernels";
constexpr std::string_view cudnn_library = "cudnn";

}  // namespace

std::optional<bool> RecurrentChoice::timed(const RecurrentGeometry& g, PersistentLayers& own,
                                           CudnnRecurrent& cudnn) {
  const auto time = [&](auto& layers, float hopeless) {
    RecurrentBenchmark benchmark(context_, g, layers.reserve_bytes(g));
    const auto both_passes = [&] {
      layers.forward(g, benchmark.in, benchmark.out);
      layers.backward(g, benchmark.in, benchmark.out, benchmark.gradients);
    };
    // The first passes choose the algorithms within, which have search budgets of their own.
    both_passes();
    both_passes();
    const SearchBudget::Use use(budget_);
    return Stopwatch(context_, allocator_).median(both_passes, hopeless);
  };
  try {
    const float own_time = time(own, std::numeric_limits<float>::infinity());
    return own_time <= time(cudnn, own_time);
  } catch (const Error&) {
    return std::nullopt;  // out of memory, or cuDNN does not support these layers
  }
}

bool RecurrentChoice::by_own_kernels(const RecurrentGeometry& g, bool training,
                                     PersistentLayers own, CudnnRecurrent cudnn) {
  if (!own.fits(g)) return false;
  const bool tf32 = options_.tf32 && !options_.deterministic;
  const std::string request =
      fmt::format("layers {}{}", describe(g, tf32), g.dropout > 0 ? " dropout" : "");
  if (const auto known = choices_.find(request); known != choices_.end()) return known->second;
  std::optional<bool> choice;
  if (const auto known = table_.find(AutotuneTable::Kind::recurrent, request)) {
    if (*known == persistent) choice = true;
    if (*known == cudnn_library) choice = false;
  }
  // No timing against cuDNN for sequences of different lengths.
  const bool may_time = training && !g.lengths && !options_.deterministic;
  if (!choice && may_time && budget_.may_search(context_.stream())) {
    choice = timed(g, own, cudnn);
    if (choice) {
      table_.set(AutotuneTable::Kind::recurrent, request,
                 std::string(*choice ? persistent : cudnn_library));
    }
  }
  const bool result = choice.value_or(true);
  if (training) choices_[request] = result;
  return result;
}

}  // namespace whisker::cuda
