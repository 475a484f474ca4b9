// The family of recurrent layers, which passes each call on to persistent kernels or cuDNN, and the
// choice between the two.
#include "core/cuda/recurrent/recurrent_algorithms.h"

#include "core/cuda/recurrent/recurrent_pass.h"
#include "core/cuda/runtime/libraries.h"

#include <cmath>
#include <deque>
#include <memory>

namespace whisker::cuda {
namespace {

/// Eager and captured steps run the same algorithm, so that both have the same bits.
class Recurrent final : public RecurrentKernels, CudaKernels {
 public:
  explicit Recurrent(CudaDevice& device) : CudaKernels(device) {}

  int64_t reserve_bytes(const RecurrentGeometry& g) override {
    return chosen(g, true).reserve_bytes(g);
  }
  void forward(const RecurrentGeometry& g, const RecurrentInputs& in,
               const RecurrentOutputs& out) override {
    chosen(g, out.reserve.defined()).forward(g, in, out);
  }
  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs& out,
                const RecurrentGradients& gradients) override {
    const int64_t left = out.reserve.defined() ? out.reserve.bytes() : 0;
    RecurrentKernels& layers = chosen(g, true);
    if (const int64_t wanted = layers.reserve_bytes(g); left != wanted) {
      fail(ErrorKind::usage,
           "recurrent: backward expected {} bytes that forward left, got {}: options or algorithms "
           "were "
           "changed between the two. Change them between steps.",
           wanted, left);
    }
    layers.backward(g, in, out, gradients);
  }

 private:
  RecurrentKernels& chosen(const RecurrentGeometry& g, bool training) {
    context_.enter();
    if (!own_.fits(g)) return cudnn_;
    return device_.recurrent->choose(g, training, own_, cudnn_);
  }

  PersistentLayers own_{device_};
  CudnnRecurrent cudnn_{device_};
};

}  // namespace

std::string RecurrentRequest::describe() const {
  const RecurrentGeometry& g = geometry;
  return fmt::format("{}{} {} x({},{},{}) hidden {} projection {} layers {} directions {}{}{}{}{}",
                     layers ? "layers " : "", name_of(g.kind), name_of(g.dtype), g.steps, g.batch,
                     g.features, g.hidden, g.projection, g.layers, g.directions,
                     g.bias ? " bias" : "", g.lengths ? " lengths" : "",
                     tf32 && g.dtype == DType::f32 ? " tf32" : "", g.dropout > 0 ? " dropout" : "");
}

size_t RecurrentRequest::hash() const {
  const RecurrentGeometry& g = geometry;
  return WordHash()
      .add(g.kind, g.steps, g.batch, g.features, g.hidden, g.projection, g.layers, g.directions,
           g.bias, g.lengths, g.dtype, layers, training)
      .value();
}

// Both passes on random operands, without initial states: all gradients. `g` has no lengths.
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
  const SearchBudget::Use use(device_.budget);
  return Stopwatch(context_, allocator_).median(both_passes, hopeless);
}

// Both passes on random operands, so small that no state grows from step to step.
float RecurrentAlgorithms::milliseconds(const RecurrentGeometry& g, CudnnRecurrentPlan& plan,
                                        float hopeless) {
  std::deque<DriverMemory> memory;
  const auto take = [&](int64_t bytes) { return memory.emplace_back(allocator_, bytes).data(); };
  const auto noise = [&](int64_t bytes, double most) {
    void* const x = take(bytes);
    kernels::noise(context_.stream(), g.dtype, static_cast<float>(most), x, bytes / width_of(g));
    return x;
  };
  const int64_t input_bytes = sequence_bytes(g, g.features);
  const RecurrentCall call{
      .x = noise(input_bytes, 1),
      .y = take(result_bytes(g)),
      .weights = noise(plan.weight_bytes(), 1 / std::sqrt(static_cast<double>(g.hidden))),
      .workspace = take(plan.workspace_bytes()),
      .reserve = take(plan.reserve_bytes())};
  void* const dy = noise(result_bytes(g), 1);
  void* const dx = take(input_bytes);
  void* const dweights = noise(plan.weight_bytes(), 0);  // zeros
  const auto both_passes = [&] {
    plan.forward(call, nullptr, nullptr);
    plan.backward_data(call, dy, nullptr, nullptr, dx, nullptr, nullptr);
    plan.backward_weights(call, dweights);
  };
  return Stopwatch(context_, allocator_).median(both_passes, hopeless);
}

RecurrentKernels& RecurrentAlgorithms::choose(const RecurrentGeometry& g, bool training,
                                              RecurrentKernels& own, RecurrentKernels& cudnn) {
  RecurrentRequest request{.geometry = g, .layers = true, .tf32 = tf32()};
  request.geometry.dropout = g.dropout > 0 ? 1 : 0;
  if (const auto* const known = layers_.find(request)) return *known->algorithm->kernels;
  const Layers candidates[] = {{"persistent kernels", &own}, {"cudnn", &cudnn}};
  const auto propose = [&](const auto& consider) {
    for (const Layers& layers : candidates) {
      consider(layers.text, [&] { return std::make_shared<Layers>(layers); });
    }
  };
  decltype(layers_)::Choice choice;
  if (const auto name = layers_.stored(request)) {
    propose([&](const std::string& text, const auto& make) {
      if (text == *name) choice.algorithm = make();
    });
  }
  // No timing against cuDNN for sequences of different lengths.
  const bool may_time = training && !g.lengths && !options_.deterministic;
  if (!choice.algorithm && may_time && device_.budget.may_search(context_.stream())) {
    try {
      choice = layers_.fastest(
          request, propose,
          [&](const Layers& layers, float hopeless) {
            return milliseconds(g, *layers.kernels, hopeless);
          },
          [](const Layers&) { return true; });
    } catch (const OutOfMemory&) {
      // Untimed in this run.
    }
  }
  if (!choice.algorithm) choice.algorithm = std::make_shared<Layers>(candidates[0]);
  RecurrentKernels& chosen = *choice.algorithm->kernels;
  if (training) layers_.add(request, std::move(choice));
  return chosen;
}

CudnnRecurrentPlan& RecurrentAlgorithms::plan(const RecurrentGeometry& g, bool training) {
  const RecurrentRequest request{.geometry = g, .training = training, .tf32 = tf32()};
  if (const auto* const known = plans_.find(request)) return *known->algorithm;
  const auto make = [&](const CudnnRecurrentAlgorithm& algorithm) {
    for (const char* part : {"ops", "adv"}) open_cudnn_part(part);
    return std::make_shared<CudnnRecurrentPlan>(context_, allocator_, g, algorithm, tf32());
  };
  decltype(plans_)::Choice choice;
  if (const auto name = plans_.stored(request)) {
    for (const auto& algorithm : cudnn_recurrent_algorithms) {
      if (algorithm.name == *name) choice.algorithm = make(algorithm);
    }
  }
  const bool may_time = training && !options_.deterministic;
  if (!choice.algorithm && may_time && device_.budget.may_search(context_.stream())) {
    const SearchBudget::Use use(device_.budget);
    try {
      choice = plans_.fastest(
          request,
          [&](const auto& consider) {
            for (const auto& algorithm : cudnn_recurrent_algorithms) {
              consider(std::string(algorithm.name), [&] { return make(algorithm); });
            }
          },
          [&](CudnnRecurrentPlan& plan, float hopeless) { return milliseconds(g, plan, hopeless); },
          [](const CudnnRecurrentPlan&) { return true; });
    } catch (const OutOfMemory&) {
      // Untimed in this run.
    }
  }
  if (!choice.algorithm) choice.algorithm = make(cudnn_recurrent_algorithms[0]);
  return *plans_.add(request, std::move(choice)).algorithm;
}

std::shared_ptr<RecurrentKernels> make_recurrent(CudaDevice& device) {
  return std::make_shared<Recurrent>(device);
}

}  // namespace whisker::cuda
