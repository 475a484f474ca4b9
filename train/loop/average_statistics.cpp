#include "train/loop/average_statistics.h"

#include "core/ops/ops.h"
#include "layers/batch_norm.h"

#include <vector>

namespace whisker {
namespace {

struct Statistic {
  const Parameter* buffer = nullptr;
  double momentum = 0;
  Tensor sum = {};
};

void collect(const Module& module, std::vector<Statistic>& found) {
  const auto* const norm = dynamic_cast<const BatchNorm*>(&module);
  if (norm && norm->uses_batch({.training = true}) && norm->options().momentum > 0) {
    for (const auto& parameter : norm->own_parameters()) {
      if (!parameter->is_buffer()) continue;
      found.push_back({.buffer = parameter.get(), .momentum = norm->options().momentum});
    }
  }
  for (const Module::Child& child : module.children()) collect(*child.module, found);
}

}  // namespace

bool measure_statistics(Experiment& experiment, TrainStep& step, int64_t epoch,
                        const std::atomic<int>& stop) {
  std::vector<Statistic> all;
  collect(*experiment.network->model().net, all);
  if (all.empty()) return false;
  // What a batch leaves pending is momentum times its own statistics then.
  for (const Statistic& one : all) one.buffer->master().fill_(0);
  BatchSource& source = *experiment.train;
  source.start_epoch(epoch);
  const bool collective = experiment.config.train.sync_batch_norm && experiment.ranks->world() > 1;
  int64_t examples = 0, batches = 0;
  while (examples < examples_to_measure) {
    const std::optional<Batch> batch = source.next();
    if (!batch) break;
    const bool full = batch->whole_size() == experiment.config.train.batch_size;
    if (!full && examples > 0) break;  // the epoch's last one, whose statistics are less exact
    examples += batch->whole_size();
    step.measure(*batch);
    if (batch->size() == 0) continue;  // its rows are other ranks'
    for (Statistic& one : all) {
      one.sum = batches == 0 ? one.buffer->pending().clone() : add(one.sum, one.buffer->pending());
    }
    ++batches;
    if (!collective && stop.load() != 0) break;
  }
  if (batches == 0) return true;
  for (const Statistic& one : all) {
    const double scale = 1 / (one.momentum * static_cast<double>(batches));
    one.buffer->master().copy_(affine(one.sum, scale, 0));
  }
  experiment.arena->bump_epoch();
  return true;
}

}  // namespace whisker
