// The loss of each task. Classification: cross-entropy over the outputs, or, for two classes with
// one output, binary cross-entropy of that logit. Language model: cross-entropy of the next token
// at every step. Regression: mean squared error.
#pragma once

#include "core/communicator/communicator.h"
#include "core/tensor/tensor.h"
#include "data/dataset.h"
#include "layers/builder/model_builder.h"
#include "train/config/config.h"
#include "train/model/signature.h"

#include <cstdint>
#include <memory>
#include <span>

namespace whisker {

class Objective {
 public:
  /// The loss of a classification. `class_counts`: training examples per class, for balanced
  /// weights. Throws usage when the model's outputs, the classes and the loss do not match.
  Objective(const Model& model, const LossConfig& config, std::span<const int64_t> class_counts,
            Device device);
  /// The loss of `signature`'s task; `class_counts` only for a classification.
  Objective(const Model& model, const Signature& signature, const LossConfig& config,
            std::span<const int64_t> class_counts, Device device);

  /// Mean loss over the batch, one element. outputs as Network::outputs gives them; labels and
  /// targets are copied to their device. `*weight` becomes the mean class weight of the rows of all
  /// ranks' parts, one element, and stays undefined where rows weigh alike.
  Tensor loss(const Tensor& outputs, const Batch& batch, Tensor* weight = nullptr) const;
  /// From now on loss() with class weights is of this rank's part of a batch, see Note [Class
  /// weights of ranks]. Null: of a whole one.
  void set_ranks(std::shared_ptr<Communicator> ranks) { ranks_ = std::move(ranks); }
  /// In place of loss() on a rank whose part of the batch has no rows.
  void join_loss(Tensor* weight = nullptr) const;
  /// The loss without label smoothing and class weights: validation, best.safetensors and `whisker
  /// evaluate` all report this one. Labels only, no mixup.
  Tensor plain_loss(const Tensor& outputs, const Batch& batch) const;

 private:
  void set_classification(const Model& model, const LossConfig& config,
                          std::span<const int64_t> class_counts, Device device);
  Tensor sum_of_ranks(const Tensor& own, Tensor* weight) const;

  Task task_;
  bool binary_;
  double label_smoothing_;
  Tensor class_weight_;    // (classes) or undefined
  Tensor weight_and_one_;  // (classes, 2), beside class_weight_
  std::shared_ptr<Communicator> ranks_;
};

}  // namespace whisker
