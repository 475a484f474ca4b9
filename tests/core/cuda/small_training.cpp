// The step of a small network.
#include "small_training.h"

#include "core/backend/backend.h"
#include "core/backend/training_step.h"
#include "core/ops/ops.h"
#include "core/tensor/philox.h"

namespace whisker::test {
namespace {

constexpr int64_t rows = 16, side = 12, classes = 4;

std::shared_ptr<Parameter> parameter(const char* name, const Shape& shape, ParameterRole role) {
  const auto made = std::make_shared<Parameter>(
      shape, role, [](uint64_t seed, uint64_t stream, std::span<float> values) {
        PhiloxStream random(seed, stream);
        for (float& value : values) value = static_cast<float>(random.uniform(-0.2, 0.2));
      });
  made->set_name(name);
  return made;
}

// Momentum rather than Adam, which would make whole steps of the rounding errors in gradients that
// are zero (the bias in front of the normalisation).
constexpr StepRule rule{.clip_norm = 1};

}  // namespace

SmallTraining::SmallTraining(Device device)
    : device_(device),
      memory_(device),
      images_(empty({rows, side, side, 3}, {.device = device})),
      labels_(empty({rows}, {.dtype = DType::i64, .device = device})),
      groups_(from_vector({1, 0.01}, {1, 2}, {.dtype = DType::f64, .device = device})),
      filters_(parameter("filters", {8, 3, 3, 3}, ParameterRole::conv_weight)),
      bias_(parameter("bias", {8}, ParameterRole::bias)),
      gamma_(parameter("gamma", {8}, ParameterRole::norm)),
      beta_(parameter("beta", {8}, ParameterRole::norm)),
      dense_(parameter("dense", {classes, side * side / 4 * 8}, ParameterRole::weight)),
      arena_(std::make_unique<ParameterArena>(ParameterList{filters_, bias_, gamma_, beta_, dense_},
                                              device, 1)),
      momentum_(arena_->make_like(MemoryCategory::optimizer)) {}

void SmallTraining::load(int64_t batch) {
  Backend& backend = backend_of(device_);
  PhiloxStream random(5, static_cast<uint64_t>(batch));
  std::vector<float> images(static_cast<size_t>(images_.count()));
  for (float& value : images) value = static_cast<float>(random.normal());
  std::vector<int64_t> labels(rows);
  for (int64_t& label : labels) label = random.below(classes);
  backend.enqueue_upload(images.data(), images_.raw(), images_.bytes());
  backend.enqueue_upload(labels.data(), labels_.raw(), labels_.bytes());
  memory_.write_inputs({.batch = batch, .learning_rate = 0.05});
}

void SmallTraining::step() {
  Backend& backend = backend_of(device_);
  arena_->zero_grad();
  {
    Tensor y = conv2d(images_, filters_->value(), bias_->value(), {.padding = 1});
    y = batch_norm(y, gamma_->value(), beta_->value(), {},
                   {.training = true, .activation = {Activation::relu}});
    y = max_pool2d(y, {.kernel = 2});
    y = dropout(y.reshape({rows, -1}), 0.25,
                {.seed = 3, .stream = 4, .offset = &memory_.state()->inputs.batch});
    const Tensor logits = linear(y, dense_->value(), {});
    const Tensor loss = cross_entropy(logits, labels_);
    backend.training_step().count_batch(logits, loss, {rule, labels_, memory_.state()});
    backward(loss);
  }
  arena_->complete_gradients();
  std::vector<OptimizerStep> steps;
  for (const ParameterRun& run : arena_->runs()) {
    steps.push_back({.kind = OptimizerKind::sgd,
                     .nesterov = true,
                     .momentum = 0.9,
                     .state = memory_.state(),
                     .groups = groups_,
                     .block_group = run.block_group,
                     .value = run.value,
                     .gradient = run.gradient,
                     .moment1 = run.of(momentum_)});
  }
  backend.training_step().update(rule, memory_.state(), steps);
  arena_->bump_epoch();
}

}  // namespace whisker::test
