// Images are uniform in [0, 1), numbers normal, tokens, labels and lengths uniform over what they
// may be, all keyed by the run's seed. The first sequence is as long as the batch.
#include "apps/study/study_network.h"

#include "core/io/text.h"
#include "core/ops/ops.h"
#include "core/tensor/philox.h"
#include "layers/memory_plan.h"
#include "layers/recurrent.h"
#include "train/data/run_data.h"
#include "train/model/freeze_layers.h"
#include "train/model/initial_weights.h"
#include "train/model/norm_batches.h"
#include "train/planning/memory_advice.h"

#include <algorithm>

namespace whisker {
namespace {

BuildOptions build_options(const Config& config, const StudyOptions& options) {
  Config sized = config;
  if (options.batch > 0) sized.train.batch_size = options.batch;
  if (options.image_size > 0) {
    sized.data.image_size = options.image_size;
    sized.data.train_image_size = 0;
  }
  BuildOptions build = expected_build(sized);
  if (options.classes > 0 && build.classes > 0 && !build.every_step) {
    build.classes = options.classes;
  }
  if (options.steps > 0 && build.batch_axis == 1) build.input = build.input.with(0, options.steps);
  return build;
}

/// i64 of `shape`, each in [low, high).
Tensor random_integers(const Shape& shape, int64_t low, int64_t high, PhiloxStream random,
                       Device device) {
  std::vector<double> values(static_cast<size_t>(shape.count()));
  const auto choices = static_cast<uint32_t>(std::max<int64_t>(1, high - low));
  for (double& value : values) value = static_cast<double>(low + random.below(choices));
  return from_vector(values, shape, {.dtype = DType::i64, .device = device});
}

/// x (T,N,F) or i64 (T,N), zero from each sequence's length on, as a loader leaves it.
Tensor padded(const Tensor& x, const std::vector<double>& lengths) {
  std::vector<double> values = x.to_vector();
  const size_t batch = lengths.size();
  const size_t row = values.size() / (static_cast<size_t>(x.extent(0)) * batch);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t place = i / row;
    if (static_cast<double>(place / batch) >= lengths[place % batch]) values[i] = 0;
  }
  return from_vector(values, x.shape(), x.options());
}

// Types as a run's; f64 throughout.
ArenaTypes arena_types(DType compute, bool wide_gradients = false) {
  return {.master = compute == DType::f64 ? compute : DType::f32,
          .compute = compute,
          .wide_gradients = wide_gradients};
}

void go_by_cells(Module& module) {
  if (auto* recurrent = dynamic_cast<Recurrent*>(&module)) recurrent->set_by_cells(true);
  for (const Module::Child& child : module.children()) go_by_cells(*child.module);
}

}  // namespace

StudyNetwork::StudyNetwork(Config config, const StudyOptions& options)
    : config_(std::move(config)),
      build_(build_options(config_, options)),
      model_(build_model(config_.model, build_)),
      dtype_(options.tensor.dtype) {
  freeze_layers(config_, model_);
  if (options.cells) go_by_cells(*model_.net);
  arena_ = std::make_shared<ParameterArena>(
      model_.net->parameters(), options.tensor.device, static_cast<uint64_t>(config_.seed),
      arena_types(options.tensor.dtype, config_.train.accumulate > 1));
  if (!config_.init.from.empty()) {
    notes_ = load_initial_weights(config_, model_, *arena_, {}).notes;
  }
  make_batch(options);
}

void StudyNetwork::make_batch(const StudyOptions& options) {
  const MemoryScope scope(MemoryCategory::input);
  const auto seed = static_cast<uint64_t>(config_.seed);
  const Device device = options.tensor.device;
  const Shape& shape = model_.input;
  const TensorOptions wide{.dtype = arena_types(dtype_).master, .device = device};
  const int64_t batch = shape[build_.batch_axis];
  const DataKind kind = config_.data.kind;
  const bool tokens = kind == DataKind::text || kind == DataKind::language;
  if (kind == DataKind::images) {
    inputs_ = rand_uniform(shape, 0, 1, seed, stream_of("study.images"), wide);
  } else if (tokens) {  // 0 is padding
    inputs_ = random_integers(shape, 1, build_.vocabulary,
                              PhiloxStream(seed, stream_of("study.tokens")), device);
  } else {
    inputs_ = rand_normal(shape, 0, 1, seed, stream_of("study.sequences"), wide);
  }
  if (kind == DataKind::text || kind == DataKind::rows) {
    model_.lengths = true;
    lengths_ = random_integers({batch}, 1, shape[0] + 1,
                               PhiloxStream(seed, stream_of("study.lengths")), device);
    std::vector<double> lengths = lengths_.to_vector();
    lengths[0] = static_cast<double>(shape[0]);
    lengths_ = from_vector(lengths, {batch}, lengths_.options());
    inputs_ = padded(inputs_, lengths);
  }
  if (!tokens) inputs_ = inputs_.to(dtype_);
  if (kind == DataKind::series) {
    targets_ = rand_normal(model_.output, 0, 1, seed, stream_of("study.targets"), wide);
    return;
  }
  labels_ = random_integers(build_.every_step ? shape : Shape{batch}, 0, build_.classes,
                            PhiloxStream(seed, stream_of("study.labels")), device);
}

Tensor StudyNetwork::loss() const {
  const Pass pass{
      .training = true, .seed = static_cast<uint64_t>(config_.seed), .lengths = lengths_};
  const Tensor outputs = (*model_.net)(inputs_, pass).to(arena_types(dtype_).master);
  if (targets_) return mse_loss(outputs, targets_);
  if (model_.output_kind == OutputKind::softmax) {
    return cross_entropy(outputs.reshape({-1, outputs.extent(-1)}), labels_.reshape({-1}),
                         {.label_smoothing = config_.loss.label_smoothing});
  }
  Tensor target = labels_.to(outputs.dtype()).reshape(outputs.shape());
  const double smoothing = config_.loss.label_smoothing;
  if (smoothing > 0) target = affine(target, 1 - smoothing, smoothing / 2);
  return binary_cross_entropy_with_logits(outputs, target);
}

void StudyNetwork::run(StepObserver& recorder) const {
  for (const auto& parameter : arena_->parameters()) {
    if (!parameter->is_buffer()) recorder.name(parameter->value(), parameter->name());
  }
  const bool images = config_.data.kind == DataKind::images;
  recorder.name(inputs_, images ? "images" : is_floating(inputs_.dtype()) ? "sequences" : "tokens");
  if (lengths_) recorder.name(lengths_, "lengths");
  if (labels_) recorder.name(labels_, "labels");
  if (targets_) recorder.name(targets_, "targets");
  arena_->zero_grad();
  backward(loss());
}

void StudyNetwork::add_optimizer() {
  OptimizerOptions options = config_.optimizer;
  options.groups.clear();  // which take no memory
  optimizer_ = std::make_unique<Optimizer>(*arena_, options, dtype_ == DType::f16);
  if (config_.ema.decay > 0) {
    average_ = std::make_unique<WeightAverage>(*arena_, config_.ema.decay, config_.ema.warmup);
  }
}

void StudyNetwork::update() {
  optimizer_->step(0);
  if (average_) average_->update();
}

int64_t StudyNetwork::predicted_bytes() const {
  return summarize(model_, summary_options(config_, dtype_, inputs_.device())).training.total();
}

std::string StudyNetwork::describe() const {
  std::string text = fmt::format("{}, {} {} on {}, ",
                                 model_.preset.empty() ? printable(config_.name) : model_.preset,
                                 model_.input, dtype_, inputs_.device());
  if (lengths_) text += fmt::format("lengths {}, ", fmt::join(lengths_.to_vector(), " "));
  if (targets_) {
    return text + fmt::format("{} output{}", model_.output[1], model_.output[1] == 1 ? "" : "s");
  }
  return text + fmt::format("{} {}", build_.classes, build_.every_step ? "tokens" : "classes");
}

int64_t study_multiply_adds(const Config& config, const StudyOptions& options) {
  try {
    const BuildOptions build = build_options(config, options);
    const Model model = build_model(config.model, build);
    if (!norm_of_one_value(model).empty()) return 0;
    return MemoryPlan::of(*model.net, model.input).multiply_adds();
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace whisker
