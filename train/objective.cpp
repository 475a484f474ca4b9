// Cross-entropy over classes, or binary cross-entropy of one logit for the second class.
#include "train/objective.h"

#include "core/backend.h"
#include "core/ops.h"

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
    : binary_(model.output_kind == OutputKind::sigmoid), label_smoothing_(config.label_smoothing) {
  const auto classes = static_cast<int64_t>(class_counts.size());
  const int64_t outputs = model.output.rank() == 2 ? model.output[1] : 0;
  if (binary_ ? classes != 2 || outputs != 1 : outputs != classes) {
    fail(ErrorKind::usage,
         "model: the last layer gives {}, the data have {} classes. End the model with a dense "
         "layer "
         "with 'units: classes'{}.",
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
  }
}

Tensor Objective::loss(const Tensor& logits, const Batch& batch) const {
  const bool soft = batch.soft_labels.defined();
  const Tensor labels = on_device(soft ? batch.soft_labels : batch.labels, logits.device());
  if (!binary_) {
    return cross_entropy(logits, labels,
                         {.label_smoothing = label_smoothing_, .class_weight = class_weight_});
  }
  Tensor target = soft ? slice(labels, 1, 1, 2) : labels.to(DType::f32).reshape({batch.size(), 1});
  if (label_smoothing_ > 0) target = affine(target, 1 - label_smoothing_, label_smoothing_ / 2);
  return binary_cross_entropy_with_logits(logits, target);
}

Tensor Objective::plain_loss(const Tensor& logits, const Batch& batch) const {
  const Tensor labels = on_device(batch.labels, logits.device());
  if (!binary_) return cross_entropy(logits, labels);
  return binary_cross_entropy_with_logits(logits, labels.to(DType::f32).reshape({batch.size(), 1}));
}

}  // namespace whisker
