// The loss of each task. Classification: cross-entropy over the outputs, or, for two classes told
// apart by one output, binary cross-entropy of that logit. Language model: cross-entropy of the
// next token at every step. Regression: mean squared error.
#pragma once

#include "core/batch_count.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "layers/model_builder.h"
#include "train/config.h"
#include "train/signature.h"

#include <cstdint>
#include <span>

namespace whisker {

class Objective {
 public:
  /// Of a classification. `class_counts`: training examples per class, for balanced weights. Throws
  /// usage when the model's outputs, the classes and the loss do not go together.
  Objective(const Model& model, const LossConfig& config, std::span<const int64_t> class_counts,
            Device device);
  /// Of the task that `signature` tells; `class_counts` only of a classification.
  Objective(const Model& model, const Signature& signature, const LossConfig& config,
            std::span<const int64_t> class_counts, Device device);

  /// Mean loss over the batch, one element. outputs as Network::outputs gives them; labels and
  /// targets go to their device. With `count` the batch is counted, too; its labels are one for
  /// each row of the outputs, on their device.
  Tensor loss(const Tensor& outputs, const Batch& batch, const BatchCount* count = nullptr) const;
  /// The same without label smoothing and class weights: what validation, best.safetensors and
  /// `whisker evaluate` report, so that their figures are one figure. Labels only, no mixup.
  Tensor plain_loss(const Tensor& outputs, const Batch& batch) const;

 private:
  void set_classification(const Model& model, const LossConfig& config,
                          std::span<const int64_t> class_counts, Device device);

  Task task_;
  bool binary_;
  double label_smoothing_;
  Tensor class_weight_;  // (classes) or undefined
};

}  // namespace whisker
