// The family of recurrent layers, which passes each call on to persistent kernels or to one of
// cuDNN's algorithms, and the choice between them.
#include "core/cuda/recurrent/recurrent_algorithms.h"

#include <algorithm>
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

// Both passes on zeros, without initial states: all gradients. Sequences have all steps. What the
// numbers are does not matter: the layers wait for their steps, not for the GPU's power.
float RecurrentAlgorithms::milliseconds(const RecurrentGeometry& g, RecurrentKernels& layers,
                                        float hopeless) {
  const Device device{DeviceKind::cuda, context_.device()};
  const auto make = [&](const Shape& shape) {
    const Tensor x = empty(shape, {.dtype = g.dtype, .device = device});
    check(cudaMemsetAsync(x.raw(), 0, static_cast<size_t>(x.bytes()), context_.stream()),
          "clearing operands");
    return x;
  };
  RecurrentInputs in{.x = make({g.steps, g.batch, g.features})};
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
  RecurrentGradients gradients{.dy = make({g.steps, g.batch, g.directions * g.output()}),
                               .dx = make({g.steps, g.batch, g.features})};
  const int64_t rows = g.gates() * g.hidden;
  for (int64_t cell = 0; cell < g.cells(); ++cell) {
    for (auto* const parameters : {&in.parameters, &gradients.dparameters}) {
      RecurrentParameters p{.w_ih = make({rows, g.inputs(cell / g.directions)}),
                            .w_hh = make({rows, g.output()})};
      if (g.bias) p.b_ih = make({rows});
      if (g.bias) p.b_hh = make({rows});
      if (g.projection > 0) p.w_hr = make({g.projection, g.hidden});
      parameters->push_back(std::move(p));
    }
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
