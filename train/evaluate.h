// A network over a source of batches, without gradients.
#pragma once

#include "data/batch_source.h"
#include "train/metrics.h"
#include "train/network.h"
#include "train/objective.h"

#include <atomic>
#include <memory>

namespace whisker {

/// Empty metrics of the network's task; top-5 is counted from six classes on.
std::unique_ptr<Metrics> make_metrics(const Network& network);

/// Of so many batches evaluate() keeps the outputs on `device` before it reads them.
int64_t batches_read_at_once(Device device);

/// Metrics of epoch 0 of `source`, with the plain loss (Objective::plain_loss). Ends early, with
/// what was counted so far, once `stop` is not 0.
std::unique_ptr<Metrics> evaluate(const Network& network, const Objective& objective,
                                  BatchSource& source, const std::atomic<int>* stop = nullptr);

}  // namespace whisker
