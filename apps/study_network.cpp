// Pictures are uniform in [0, 1), labels uniform over the classes, both keyed by the run's seed.
#include "apps/study_network.h"

#include "core/ops.h"
#include "core/philox.h"
#include "layers/plan.h"
#include "train/experiment.h"

namespace whisker {
namespace {

int64_t resolve_classes(const Config& config, const StudyOptions& options) {
  return options.classes > 0 ? options.classes : class_count(config);
}

Model build(const Config& config, const StudyOptions& options) {
  const int64_t batch = options.batch > 0 ? options.batch : shown_batch_size(config);
  const int64_t size = options.image_size > 0 ? options.image_size : config.data.image_size;
  return build_model(model_section(config), {.input = {batch, size, size, config.data.channels},
                                             .classes = resolve_classes(config, options)});
}

}  // namespace

StudyNetwork::StudyNetwork(Config config, const StudyOptions& options)
    : config_(std::move(config)),
      classes_(resolve_classes(config_, options)),
      model_(build(config_, options)) {
  const auto seed = static_cast<uint64_t>(config_.seed);
  model_.net->freeze(config_.freeze);
  arena_ = std::make_shared<ParameterArena>(model_.net->parameters(), options.tensor.device, seed,
                                            ArenaTypes{.master = options.tensor.dtype});
  images_ = rand_uniform(model_.input, 0, 1, seed, stream_of("study.images"), options.tensor);
  PhiloxStream random(seed, stream_of("study.labels"));
  std::vector<double> labels(static_cast<size_t>(model_.input[0]));
  for (double& label : labels) label = random.below(static_cast<uint32_t>(classes_));
  labels_ = from_vector(labels, {model_.input[0]},
                        {.dtype = DType::i64, .device = options.tensor.device});
}

Tensor StudyNetwork::loss() const {
  const Pass pass{.training = true, .seed = static_cast<uint64_t>(config_.seed)};
  const Tensor logits = (*model_.net)(images_, pass);
  if (model_.output_kind == OutputKind::softmax) {
    return cross_entropy(logits, labels_, {.label_smoothing = config_.loss.label_smoothing});
  }
  const Tensor target = labels_.to(logits.dtype()).reshape(logits.shape());
  return binary_cross_entropy_with_logits(logits, target);
}

void StudyNetwork::run(TapeListing& listing) const {
  for (const auto& parameter : arena_->parameters()) {
    if (!parameter->is_buffer()) listing.name(parameter->value(), parameter->name());
  }
  listing.name(images_, "images");
  listing.name(labels_, "labels");
  arena_->zero_grad();
  backward(loss());
}

std::string StudyNetwork::describe() const {
  return fmt::format("{}, {} {} on {}, {} classes",
                     model_.preset.empty() ? config_.name : model_.preset, model_.input,
                     images_.dtype(), images_.device(), classes_);
}

int64_t study_multiply_adds(const Config& config, int64_t batch, int64_t image_size) {
  try {
    const Model model = build(config, {.batch = batch, .image_size = image_size});
    return Plan::of(*model.net, model.input).multiply_adds();
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace whisker
