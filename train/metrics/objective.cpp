// Checks the outputs against the task, and computes the losses.
//
// Note [Class weights of ranks] A weighted mean divides by the sum of its rows' class weights, but
// the ranks' means are added in proportion to their rows (Note [Weighted ranks]). So a rank's loss
// is multiplied by (its part of the batch's weight) / (its part of the rows); the ranks add up both
// before backward. Of accumulated batches, the sum of the weights is also what a batch counts by:
// see Note [Accumulated batches] in train/loop/train_step.h.
#include "train/metrics/objective.h"

#include "core/backend/backend.h"
#include "core/io/counted.h"
#include "core/ops/ops.h"

#include <numeric>

namespace whisker {
namespace {

// Labels where the logits are, without waiting for the device.
Tensor on_device(const Tensor& labels, Device device) {
  if (labels.device() == device) return labels;
  const Tensor copy = empty(labels.shape(), {.dtype = labels.dtype(), .device = device});
  backend_of(device).enqueue_upload(labels.raw(), copy.raw(), labels.bytes());
  return copy;
}

}  // namespace

Objective::Objective(const Model& model, const LossConfig& config,
                     std::span<const int64_t> class_counts, Device device)
    : task_(Task::classification),
      binary_(model.output_kind == OutputKind::sigmoid),
      label_smoothing_(config.label_smoothing) {
  set_classification(model, config, class_counts, device);
}

void Objective::set_classification(const Model& model, const LossConfig& config,
                                   std::span<const int64_t> class_counts, Device device) {
  const auto classes = static_cast<int64_t>(class_counts.size());
  const int64_t outputs = model.output.rank() == 2 ? model.output[1] : 0;
  if (binary_ ? classes != 2 || outputs != 1 : outputs != classes) {
    fail(ErrorKind::usage,
         "model: the last layer gives {}, the data have {} classes. End the model with a dense "
         "layer with 'units: classes'{}.",
         model.output, classes, classes == 2 ? ", or with 'units: 1, activation: sigmoid'" : "");
  }
  if (config.kind == LossKind::binary_cross_entropy && !binary_) {
    fail(ErrorKind::usage,
         "loss.kind: binary_cross_entropy needs a last layer of one sigmoid unit. Use "
         "cross_entropy.");
  }
  if (config.kind == LossKind::cross_entropy && binary_) {
    fail(ErrorKind::usage,
         "loss.kind: cross_entropy needs one output per class, the model has one. Use "
         "binary_cross_entropy, or 'units: classes' in the last layer.");
  }
  if (config.class_weights == ClassWeighting::balanced) {
    if (binary_) {
      fail(ErrorKind::usage,
           "loss.class_weights: not with one output. Use 'units: classes' or data.sampling: "
           "balanced.");
    }
    const double total =
        static_cast<double>(std::accumulate(class_counts.begin(), class_counts.end(), int64_t{0}));
    std::vector<double> weights;
    for (const int64_t count : class_counts) {
      weights.push_back(count > 0 ? total / static_cast<double>(classes * count) : 0);
    }
    class_weight_ = from_vector(weights, {classes}, {.device = device});
    std::vector<double> pairs;
    for (const double weight : weights) pairs.insert(pairs.end(), {weight, 1});
    weight_and_one_ = from_vector(pairs, {classes, 2}, {.device = device});
  }
}

Objective::Objective(const Model& model, const Signature& signature, const LossConfig& config,
                     std::span<const int64_t> class_counts, Device device)
    : task_(signature.task()),
      binary_(task_ == Task::classification && model.output_kind == OutputKind::sigmoid),
      label_smoothing_(config.label_smoothing) {
  if (task_ == Task::classification) {
    set_classification(model, config, class_counts, device);
    return;
  }
  if (config.kind != LossKind::automatic || config.class_weights != ClassWeighting::none) {
    fail(ErrorKind::usage,
         "loss: loss.kind and loss.class_weights are a classification's; {} have one loss of their "
         "own.",
         task_ == Task::regression ? "forecasts" : "language models");
  }
  if (task_ == Task::language_model) return;  // build_model has checked the outputs
  const int64_t outputs = std::get<SeriesInput>(signature.input).outputs();
  if (label_smoothing_ > 0) {
    fail(ErrorKind::usage, "loss.label_smoothing: a forecast has no labels; leave it 0.");
  }
  if (model.output.rank() != 2 || model.output[1] != outputs) {
    fail(
        ErrorKind::usage,
        "model: the last layer gives {}, a forecast of data.series.horizon rows needs (N, {}). End "
        "the model with a dense layer of {}.",
        model.output, outputs, counted(outputs, "unit"));
  }
}

Tensor Objective::loss(const Tensor& outputs, const Batch& batch, Tensor* weight) const {
  if (task_ == Task::regression) return plain_loss(outputs, batch);
  const bool soft = batch.soft_labels.defined();
  const Tensor labels = on_device(soft ? batch.soft_labels : batch.labels, outputs.device());
  if (!binary_) {
    const Tensor rows = outputs.reshape({-1, outputs.extent(-1)});  // a language model's are steps
    const Tensor own =
        cross_entropy(rows, soft ? labels : labels.reshape({-1}),
                      {.label_smoothing = label_smoothing_, .class_weight = class_weight_});
    if (!class_weight_.defined() || (!ranks_ && !weight)) return own;
    // Soft labels are averaged over rows, whatever these weigh.
    const Tensor pair = soft ? ones({2}, {.device = outputs.device()})
                             : sum(embedding(weight_and_one_, labels), {0});
    const Tensor all = sum_of_ranks(pair, weight);
    if (soft || !ranks_) return own;
    const Tensor fraction = div(pair, all);
    return mul(own, div(slice(fraction, 0, 0, 1), slice(fraction, 0, 1, 2)).reshape(own.shape()));
  }
  Tensor target = soft ? slice(labels, 1, 1, 2) : labels.to(DType::f32).reshape({batch.size(), 1});
  if (label_smoothing_ > 0) target = affine(target, 1 - label_smoothing_, label_smoothing_ / 2);
  return binary_cross_entropy_with_logits(outputs, target);
}

// `own` (2): the sum of the rows' weights, and their number. Those of all ranks, and their
// quotient.
Tensor Objective::sum_of_ranks(const Tensor& own, Tensor* weight) const {
  Tensor all = own;
  if (ranks_) {
    all = own.clone();
    ranks_->all_reduce(all);
  }
  if (weight) *weight = div(slice(all, 0, 0, 1), slice(all, 0, 1, 2)).reshape(Shape());
  return all;
}

void Objective::join_loss(Tensor* weight) const {
  if (!class_weight_.defined() || !ranks_) return;
  sum_of_ranks(zeros({2}, {.device = class_weight_.device()}), weight);
}

Tensor Objective::plain_loss(const Tensor& outputs, const Batch& batch) const {
  if (task_ == Task::regression) {
    return mse_loss(outputs, on_device(batch.targets, outputs.device()));
  }
  const Tensor labels = on_device(batch.labels, outputs.device());
  if (!binary_) {
    return cross_entropy(outputs.reshape({-1, outputs.extent(-1)}), labels.reshape({-1}));
  }
  return binary_cross_entropy_with_logits(outputs,
                                          labels.to(DType::f32).reshape({batch.size(), 1}));
}

}  // namespace whisker
