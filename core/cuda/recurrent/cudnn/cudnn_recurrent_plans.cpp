#include "core/cuda/recurrent/cudnn/cudnn_recurrent_plans.h"

#include "core/cuda/autotune/driver_memory.h"
#include "core/cuda/autotune/stopwatch.h"
#include "core/cuda/runtime/libraries.h"
#include "core/error.h"

#include <array>
#include <cmath>
#include <optional>
#include <string_view>

namespace whisker::cuda {
namespace {

struct Algorithm {
  cudnnRNNAlgo_t id;
  std::string_view name;
};
constexpr std::array<Algorithm, 3> algorithms = {
    {{CUDNN_RNN_ALGO_STANDARD, "standard"},
     {CUDNN_RNN_ALGO_PERSIST_STATIC, "persistent"},
     {CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, "persistent small"}}};

// Forward and backward of one algorithm on random operands, for timing.
class Candidate {
 public:
  Candidate(Allocator& allocator, const RecurrentGeometry& g, CudnnRecurrentPlan& plan)
      : plan_(plan),
        width_(static_cast<int64_t>(size_of(g.dtype))),
        x_(allocator, g.steps * g.batch * g.features * width_),
        dx_(allocator, g.steps * g.batch * g.features * width_),
        y_(allocator, result_bytes(g)),
        dy_(allocator, result_bytes(g)),
        weights_(allocator, plan.weight_bytes()),
        dweights_(allocator, plan.weight_bytes()),
        workspace_(allocator, plan.workspace_bytes()),
        reserve_(allocator, plan.reserve_bytes()) {}

  // Random, and small enough that no state grows from step to step.
  void fill(cudaStream_t stream, const RecurrentGeometry& g) {
    const auto most = static_cast<float>(1 / std::sqrt(static_cast<double>(g.hidden)));
    kernels::noise(stream, g.dtype, 1, x_.data(), g.steps * g.batch * g.features);
    kernels::noise(stream, g.dtype, 1, dy_.data(), result_bytes(g) / width_);
    kernels::noise(stream, g.dtype, most, weights_.data(), plan_.weight_bytes() / width_);
    check(cudaMemsetAsync(dweights_.data(), 0, static_cast<size_t>(plan_.weight_bytes()), stream),
          "clearing the weights' gradient");
  }
  void operator()() {
    const RecurrentCall call{.x = x_.data(),
                             .y = y_.data(),
                             .weights = weights_.data(),
                             .workspace = workspace_.data(),
                             .reserve = reserve_.data()};
    plan_.forward(call, nullptr, nullptr);
    plan_.backward_data(call, dy_.data(), nullptr, nullptr, dx_.data(), nullptr, nullptr);
    plan_.backward_weights(call, dweights_.data());
  }

 private:
  int64_t result_bytes(const RecurrentGeometry& g) const {
    return g.steps * g.batch * g.directions * g.output() * width_;
  }
  CudnnRecurrentPlan& plan_;
  int64_t width_;
  DriverMemory x_, dx_, y_, dy_, weights_, dweights_, workspace_, reserve_;
};

}  // namespace

std::string describe(const RecurrentGeometry& g, bool tf32) {
  return fmt::format("{} {} x({},{},{}) hidden {} projection {} layers {} directions {}{}{}{}",
                     name_of(g.kind), name_of(g.dtype), g.steps, g.batch, g.features, g.hidden,
                     g.projection, g.layers, g.directions, g.bias ? " bias" : "",
                     g.lengths ? " lengths" : "", tf32 && g.dtype == DType::f32 ? " tf32" : "");
}

std::unique_ptr<CudnnRecurrentPlan> CudnnRecurrentPlans::make(const RecurrentGeometry& g,
                                                              cudnnRNNAlgo_t algorithm) {
  for (const char* part : {"ops", "adv"}) open_cudnn_part(part);
  return std::make_unique<CudnnRecurrentPlan>(context_, allocator_, g, algorithm, tf32());
}

std::unique_ptr<CudnnRecurrentPlan> CudnnRecurrentPlans::fastest(const RecurrentGeometry& g,
                                                                 const std::string& request) {
  const SearchBudget::Use use(budget_);
  std::unique_ptr<CudnnRecurrentPlan> best;
  float best_time = std::numeric_limits<float>::infinity();
  std::string_view best_name;
  bool shortage = false;
  for (const Algorithm& algorithm : algorithms) {
    try {
      auto plan = make(g, algorithm.id);
      Candidate candidate(allocator_, g, *plan);
      candidate.fill(context_.stream(), g);
      const float time = Stopwatch(context_, allocator_).median(candidate, best_time);
      if (time >= best_time) continue;
      best_time = time;
      best = std::move(plan);
      best_name = algorithm.name;
    } catch (const OutOfMemory&) {
      shortage = true;  // this run uses the fastest of the others, the table gets none
    } catch (const Error&) {
      // Not supported for this geometry.
    }
  }
  if (!best) return make(g, CUDNN_RNN_ALGO_STANDARD);  // untimed, or throws the reason
  if (!shortage) table_.set(recurrent_rows, request, std::string(best_name));
  return best;
}

CudnnRecurrentPlan& CudnnRecurrentPlans::plan(const RecurrentGeometry& g, bool training) {
  const std::string request = describe(g, tf32());
  std::unique_ptr<CudnnRecurrentPlan>& plan =
      algorithms_[training ? request : request + " inference"];
  if (plan) return *plan;
  if (const auto known = table_.find(recurrent_rows, request)) {
    for (const Algorithm& algorithm : algorithms) {
      if (*known == algorithm.name) plan = make(g, algorithm.id);
    }
  }
  const bool choice = !options_.deterministic;  // the standard algorithm repeats bit for bit
  if (!plan && training && choice && budget_.may_search(context_.stream())) {
    plan = fastest(g, request);
  }
  if (!plan) plan = make(g, CUDNN_RNN_ALGO_STANDARD);
  return *plan;
}

}  // namespace whisker::cuda
