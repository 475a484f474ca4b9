// The family of recurrent layers, which passes each call on to persistent kernels or to one of
// cuDNN's algorithms, and the choice between them.
#include "core/cuda/recurrent/recurrent_algorithms.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace whisker::cuda {

std::string RecurrentRequest::describe() const {
  const RecurrentGeometry& g = geometry;
  return fmt::format("{} {} x({},{},{}) hidden {} projection {} layers {} directions {}{}{}{}{}",
                     name_of(g.kind), name_of(g.dtype), g.steps, g.batch, g.features, g.hidden,
                     g.projection, g.layers, g.directions, g.bias ? " bias" : "",
                     g.lengths ? " lengths" : "", tf32 && g.dtype == DType::f32 ? " tf32" : "",
                     g.dropout > 0 ? " dropout" : "");
}

size_t RecurrentRequest::hash() const {
  const RecurrentGeometry& g = geometry;
  return WordHash()
      .add(g.kind, g.steps, g.batch, g.features, g.hidden, g.projection, g.layers, g.directions,
           g.bias, g.lengths, g.dtype, training)
      .value();
}

// Both passes on random operands, without initial states: all gradients. Sequences have all steps.
float RecurrentAlgorithms::milliseconds(const RecurrentGeometry& g, RecurrentKernels& layers,
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
  if (g.lengths) {
    const std::vector<int64_t> all(static_cast<size_t>(g.batch), g.steps);
    in.lengths = empty({g.batch}, {.dtype = DType::i64, .device = device});
    device_.staging.upload(all.data(), in.lengths.raw(), in.lengths.bytes());
  }
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
  // The first passes choose the gemms within, which have a search budget of their own.
  both_passes();
  both_passes();
  const SearchBudget::Use use(device_.budget);
  return Stopwatch(context_, allocator_).median(both_passes, hopeless);
}

RecurrentKernels& RecurrentAlgorithms::chosen(const RecurrentGeometry& g, bool training) {
  context_.enter();
  RecurrentRequest request{.geometry = g, .training = training, .tf32 = tf32()};
  request.geometry.dropout = g.dropout > 0 ? 1 : 0;
  if (const auto* const known = tuner_.find(request)) return *known->algorithm->layers;
  std::vector<Algorithm> candidates;
  if (own_.fits(g)) {
    if (g.lengths) return own_;  // not timed against cuDNN, whose way is longer
    candidates.push_back({"persistent kernels", &own_});
  }
  for (CudnnRecurrent& layers : cudnn_) candidates.push_back({layers.name(), &layers});
  decltype(tuner_)::Choice choice{.algorithm = std::make_shared<Algorithm>(candidates[0])};
  if (const auto name = tuner_.stored(request)) {
    const auto known = std::ranges::find(candidates, *name, &Algorithm::text);
    if (known != candidates.end()) {
      *choice.algorithm = *known;
      choice.settled = true;
    }
  }
  const bool may_time = training && !options_.deterministic;
  if (!choice.settled && may_time && device_.budget.may_search(context_.stream())) {
    try {
      auto fastest = tuner_.fastest(
          request,
          [&](const auto& consider) {
            for (const Algorithm& candidate : candidates) {
              consider(candidate.text, [&] { return std::make_shared<Algorithm>(candidate); });
            }
          },
          [&](const Algorithm& candidate, float hopeless) {
            return milliseconds(g, *candidate.layers, hopeless);
          },
          [](const Algorithm&) { return true; });
      if (fastest.algorithm) choice = std::move(fastest);
    } catch (const OutOfMemory&) {
      // Untimed in this run.
    }
  }
  return *tuner_.add(request, std::move(choice)).algorithm->layers;
}

int64_t RecurrentAlgorithms::reserve_bytes(const RecurrentGeometry& g) {
  return chosen(g, true).reserve_bytes(g);
}

void RecurrentAlgorithms::forward(const RecurrentGeometry& g, const RecurrentInputs& in,
                                  const RecurrentOutputs& out) {
  chosen(g, out.reserve.defined()).forward(g, in, out);
}

void RecurrentAlgorithms::backward(const RecurrentGeometry& g, const RecurrentInputs& in,
                                   const RecurrentOutputs& out,
                                   const RecurrentGradients& gradients) {
  const int64_t left = out.reserve.defined() ? out.reserve.bytes() : 0;
  RecurrentKernels& layers = chosen(g, true);
  if (const int64_t wanted = layers.reserve_bytes(g); left != wanted) {
    fail(ErrorKind::usage,
         "recurrent: backward expected {} bytes that forward left, got {}: options or algorithms "
         "were changed between the two. Change them between steps.",
         wanted, left);
  }
  layers.backward(g, in, out, gradients);
}

// It is the device's, which outlives its families.
std::shared_ptr<RecurrentKernels> make_recurrent(CudaDevice& device) {
  return {std::shared_ptr<void>(), device.recurrent.get()};
}

}  // namespace whisker::cuda
