// The loss of a classifier: cross-entropy over its outputs, or, for two classes told apart by one
// output, binary cross-entropy of that logit.
#pragma once

#include "core/tensor.h"
#include "data/dataset.h"
#include "layers/model_builder.h"
#include "train/config.h"

#include <cstdint>
#include <span>

namespace whisker {

class Objective {
 public:
  /// `class_counts`: training pictures per class, for balanced weights. Throws usage when the
  /// model's outputs, the classes and the loss do not go together.
  Objective(const Model& model, const LossConfig& config, std::span<const int64_t> class_counts,
            Device device);

  /// Mean loss over the batch, one element. logits (N, outputs); labels go to their device.
  Tensor loss(const Tensor& logits, const Batch& batch) const;
  /// The same without label smoothing and class weights: what validation, best.safetensors and
  /// `whisker evaluate` report, so that their figures are one figure. Labels only, no mixup.
  Tensor plain_loss(const Tensor& logits, const Batch& batch) const;

 private:
  bool binary_;
  double label_smoothing_;
  Tensor class_weight_;  // (classes) or undefined
};

}  // namespace whisker
