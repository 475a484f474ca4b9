#include "core/cuda/recurrent/recurrent_choice.h"

#include "core/cuda/autotune/stopwatch.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

namespace whisker::cuda {
namespace {

// Choices in the autotune table.
constexpr std::string_view persistent = "persistent kernels";
constexpr std::string_view cudnn_library = "cudnn";

}  // namespace

// Both passes on random operands, without initial states: all gradients. `g` has no lengths.
float RecurrentChoice::milliseconds(const RecurrentGeometry& g, RecurrentKernels& layers,
                                    float hopeless) {
  const Device device{DeviceKind::cuda, context_.device()};
  const auto make = [&](const Shape& shape) {
    return empty(shape, {.dtype = g.dtype, .device = device});
  };
  const auto noise = [&](const Shape& shape, double most) {
    const Tensor x = make(shape);
    kernels::noise(context_.stream(), g.dtype, static_cast<float>(most), x.raw(), x.count());
    return x;
  };
  RecurrentInputs in{.x = noise({g.steps, g.batch, g.features}, 1)};
  RecurrentOutputs out{.y = make({g.steps, g.batch, g.directions * g.output()}),
                       .last = {.h = make({g.cells(), g.batch, g.output()})}};
  if (g.is_lstm()) out.last.c = make({g.cells(), g.batch, g.hidden});
  if (const int64_t bytes = layers.reserve_bytes(g); bytes > 0) {
    out.reserve = empty({bytes}, {.dtype = DType::u8, .device = device});
  }
  RecurrentGradients gradients{.dy = noise({g.steps, g.batch, g.directions * g.output()}, 1),
                               .dx = make({g.steps, g.batch, g.features})};
  // Weights as small as initial ones: no state grows from step to step.
  const double most = 1 / std::sqrt(static_cast<double>(g.hidden));
  const int64_t rows = g.gates() * g.hidden;
  for (int64_t cell = 0; cell < g.cells(); ++cell) {
    const auto parameters = [&](auto&& tensor) {
      RecurrentParameters p{.w_ih = tensor({rows, g.inputs(cell / g.directions)}),
                            .w_hh = tensor({rows, g.output()})};
      if (g.bias) p.b_ih = tensor({rows});
      if (g.bias) p.b_hh = tensor({rows});
      if (g.projection > 0) p.w_hr = tensor({g.projection, g.hidden});
      return p;
    };
    in.parameters.push_back(parameters([&](const Shape& shape) { return noise(shape, most); }));
    gradients.dparameters.push_back(parameters(make));
  }
  const auto both_passes = [&] {
    layers.forward(g, in, out);
    layers.backward(g, in, out, gradients);
  };
  // The first passes choose the algorithms within, which have search budgets of their own.
  both_passes();
  both_passes();
  const SearchBudget::Use use(budget_);
  return Stopwatch(context_, allocator_).median(both_passes, hopeless);
}

bool RecurrentChoice::by_own_kernels(const RecurrentGeometry& g, bool training,
                                     PersistentLayers& own, CudnnRecurrent& cudnn) {
  if (!own.fits(g)) return false;
  const std::string request =
      fmt::format("layers {}{}", describe(g, tf32()), g.dropout > 0 ? " dropout" : "");
  if (const auto known = choices_.find(request); known != choices_.end()) return known->second;
  std::optional<bool> choice;
  if (const auto known = table_.find(recurrent_rows, request)) {
    if (*known == persistent) choice = true;
    if (*known == cudnn_library) choice = false;
  }
  // No timing against cuDNN for sequences of different lengths.
  const bool may_time = training && !g.lengths && !options_.deterministic;
  if (!choice && may_time && budget_.may_search(context_.stream())) {
    try {
      const float time = milliseconds(g, own, std::numeric_limits<float>::infinity());
      choice = time <= milliseconds(g, cudnn, time);
      table_.set(recurrent_rows, request, std::string(*choice ? persistent : cudnn_library));
    } catch (const Error&) {
      // Out of memory, or cuDNN does not support these layers.
    }
  }
  const bool result = choice.value_or(true);
  if (training) choices_[request] = result;
  return result;
}

RecurrentKernels& RecurrentChoice::choose(const RecurrentGeometry& g, bool training,
                                          PersistentLayers& own, CudnnRecurrent& cudnn) {
  if (by_own_kernels(g, training, own, cudnn)) return own;
  return cudnn;
}

}  // namespace whisker::cuda
