// One pass over the data, row by row into the metrics. A GPU is read after several batches at once,
// so that it seldom stands still.
#include "train/evaluate.h"

#include "core/autograd.h"

namespace whisker {
namespace {

// What became of a batch; on the device until it is read.
struct Outcome {
  Tensor scores;  // (N, classes)
  Tensor labels;  // (N), in host memory
  Tensor loss;    // of one element
};

void read(std::vector<Outcome>& outcomes, ClassificationMetrics& metrics, size_t classes) {
  for (const Outcome& outcome : outcomes) {
    const Tensor scores = outcome.scores.to(cpu_device);
    const auto rows = scores.data<const float>();
    const auto labels = outcome.labels.data<const int64_t>();
    for (size_t i = 0; i < labels.size(); ++i) {
      metrics.add(rows.subspan(i * classes, classes), labels[i]);
    }
    metrics.add_loss(outcome.loss.item(), outcome.labels.count());
  }
  outcomes.clear();
}

}  // namespace

ClassificationMetrics evaluate(const Classifier& classifier, const Objective& objective,
                               BatchSource& source, const std::atomic<int>* stop) {
  const NoGrad no_grad;
  const size_t classes = classifier.classes().size();
  constexpr int64_t top_k = 5;
  const auto count = static_cast<int64_t>(classes);
  ClassificationMetrics metrics(count, count > top_k ? top_k : 0);
  const bool gpu = classifier.arena().device().kind == DeviceKind::cuda;
  const size_t batches_at_once = gpu ? 16 : 1;
  std::vector<Outcome> outcomes;
  source.start_epoch(0);
  while (const std::optional<Batch> batch = source.next()) {
    const Tensor logits = classifier.logits(batch->inputs);
    outcomes.push_back({.scores = classifier.probabilities(logits),
                        .labels = batch->labels.clone(),
                        .loss = objective.plain_loss(logits, *batch)});
    if (outcomes.size() == batches_at_once) read(outcomes, metrics, classes);
    if (stop && stop->load() != 0) break;
  }
  read(outcomes, metrics, classes);
  return metrics;
}

}  // namespace whisker
