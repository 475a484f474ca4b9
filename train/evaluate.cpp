// One pass over the data, row by row into the metrics.
#include "train/evaluate.h"

#include "core/autograd.h"

namespace whisker {

void add_predictions(ClassificationMetrics& metrics, const Classifier& classifier,
                     const Tensor& logits, const Batch& batch) {
  const Tensor scores = classifier.probabilities(logits).to(cpu_device);
  const auto rows = scores.data<const float>();
  const auto labels = batch.labels.data<const int64_t>();
  const size_t classes = classifier.classes().size();
  for (size_t i = 0; i < labels.size(); ++i) {
    metrics.add(rows.subspan(i * classes, classes), labels[i]);
  }
}

ClassificationMetrics evaluate(const Classifier& classifier, const Objective& objective,
                               BatchSource& source, const std::atomic<int>* stop) {
  const NoGrad no_grad;
  const auto classes = static_cast<int64_t>(classifier.classes().size());
  constexpr int64_t top_k = 5;
  ClassificationMetrics metrics(classes, classes > top_k ? top_k : 0);
  source.start_epoch(0);
  while (const std::optional<Batch> batch = source.next()) {
    const Tensor logits = classifier.logits(batch->images);
    metrics.add_loss(objective.plain_loss(logits, *batch).item(), batch->size());
    add_predictions(metrics, classifier, logits, *batch);
    if (stop && stop->load() != 0) break;
  }
  return metrics;
}

}  // namespace whisker
