// Evaluates a network over a source of batches, without gradients.
#pragma once

#include "data/batch_source.h"
#include "train/metrics/metrics.h"
#include "train/metrics/objective.h"
#include "train/model/network.h"

#include <atomic>
#include <functional>
#include <memory>

namespace whisker {

/// Empty metrics for the network's task; with top-5 accuracy from six classes on.
std::unique_ptr<Metrics> make_metrics(const Network& network);

/// Number of batches whose outputs evaluate() keeps on `device` before it reads them.
int64_t batches_read_at_once(Device device);

/// Receives what a batch's metrics are made of: f32 outputs (of a classification probabilities),
/// and the batch without inputs, both in host memory.
using OutputObserver = std::function<void(const Tensor& outputs, const Batch& batch)>;

struct EvaluateOptions {
  const std::atomic<int>* stop = nullptr;  ///< ends early, with the metrics so far, once not 0
  OutputObserver observe = {};
  OutputObserver observe_logits = {};  ///< receives Network::outputs() instead
  /// Averages the probabilities of each image and its mirror image. The loss is that of the
  /// average, at most 87.3 for an image.
  bool mirror = false;
};

/// Metrics of epoch 0 of `source`, with the plain loss (Objective::plain_loss) of calibrated
/// logits.
std::unique_ptr<Metrics> evaluate(const Network& network, const Objective& objective,
                                  BatchSource& source, const EvaluateOptions& options = {});

}  // namespace whisker
