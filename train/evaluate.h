// A classifier over a source of batches, without gradients.
#pragma once

#include "data/batch_source.h"
#include "train/classifier.h"
#include "train/metrics.h"
#include "train/objective.h"

#include <atomic>

namespace whisker {

/// Metrics of epoch 0 of `source`, with the plain loss (Objective::plain_loss); top-5 is counted
/// from six classes on. Ends early, with what was counted so far, once `stop` is not 0.
ClassificationMetrics evaluate(const Classifier& classifier, const Objective& objective,
                               BatchSource& source, const std::atomic<int>* stop = nullptr);

}  // namespace whisker
