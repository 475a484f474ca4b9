// One pass over the data, row by row into the metrics. Outputs on a GPU are read several batches at
// a time, so that it is rarely idle.
#include "train/metrics/evaluate.h"

#include "core/autograd/autograd.h"
#include "core/backend/recurrent_operands.h"
#include "core/ops/ops.h"
#include "core/work_progress.h"

#include <limits>
#include <vector>

namespace whisker {
namespace {

// What became of a batch; on the device until it is read.
struct Outcome {
  Tensor outputs;
  Tensor logits;  // undefined unless they are observed
  Tensor loss;    // of one element
  Batch batch;    // without inputs, in host memory
};

void read(std::vector<Outcome>& outcomes, Metrics& metrics, const EvaluateOptions& options) {
  for (const Outcome& outcome : outcomes) {
    const Tensor outputs = outcome.outputs.to(cpu_device);
    metrics.add(outputs, outcome.batch);
    if (options.observe) options.observe(outputs, outcome.batch);
    if (options.observe_logits) {
      options.observe_logits(outcome.logits.to(cpu_device), outcome.batch);
    }
    metrics.add_loss(outcome.loss.item(), outcome.batch.labels.count());
  }
  outcomes.clear();
}

// images (N,H,W,C), each from right to left.
Tensor mirrored(const Tensor& images) {
  const int64_t width = images.extent(2);
  std::vector<double> order;
  for (int64_t column = width; column-- > 0;) order.push_back(static_cast<double>(column));
  const Tensor columns = transpose(images, {2, 0, 1, 3});  // (W,N,H,C)
  const Tensor turned =
      embedding(columns.reshape({width, -1}),
                from_vector(order, {width}, {.dtype = DType::i64, .device = images.device()}));
  return transpose(turned.reshape(columns.shape()), {1, 2, 0, 3});
}

// Mean of -log of the label's probability.
Tensor loss_of(const Tensor& probabilities, const Tensor& labels) {
  constexpr double least = std::numeric_limits<float>::min();
  return cross_entropy(log(clamp(probabilities, least, 1)), labels.to(probabilities.device()));
}

}  // namespace

std::unique_ptr<Metrics> make_metrics(const Network& network) {
  const Signature& signature = network.signature();
  switch (signature.task()) {
    case Task::regression:
      return std::make_unique<RegressionMetrics>(network.input<SeriesInput>().season);
    case Task::language_model: {
      const bool characters = network.input<TextInput>().level == TokenLevel::characters;
      return std::make_unique<LanguageMetrics>(characters);
    }
    case Task::classification:
      break;
  }
  constexpr int64_t top_k = 5;
  return std::make_unique<ClassificationMetrics>(signature.classes,
                                                 std::ssize(signature.classes) > top_k ? top_k : 0,
                                                 signature.examples(), signature.positive_class);
}

int64_t batches_read_at_once(Device device) {
  return device.kind == DeviceKind::cuda ? 16 : 1;
}

std::unique_ptr<Metrics> evaluate(const Network& network, const Objective& objective,
                                  BatchSource& source, const EvaluateOptions& options) {
  const NoGrad no_grad;
  std::unique_ptr<Metrics> metrics = make_metrics(network);
  const bool classification = network.signature().task() == Task::classification;
  const int64_t batches_at_once = batches_read_at_once(network.arena().device());
  std::vector<Outcome> outcomes;
  CarriedStates states;
  source.start_epoch(0);
  while (const std::optional<Batch> batch = source.next()) {
    count_progress();
    if (batch->size() == 0) continue;  // its rows are other ranks'
    if (!batch->continues) states.clear();
    const bool carries = network.signature().task() == Task::language_model;
    const Tensor outputs = network.outputs(*batch, {.states = carries ? &states : nullptr});
    const Tensor logits = classification ? network.calibrated(outputs) : outputs;
    Tensor scores = classification ? network.probabilities(outputs) : outputs;
    if (options.mirror) {
      const Tensor other = network.probabilities(network.outputs(mirrored(batch->inputs)));
      scores = affine(add(scores, other), 0.5, 0);
    }
    outcomes.push_back({.outputs = scores,
                        .logits = options.observe_logits ? outputs : Tensor(),
                        .loss = options.mirror ? loss_of(scores, batch->labels)
                                               : objective.plain_loss(logits, *batch),
                        .batch = {.inputs = {},
                                  .labels = batch->labels.clone(),
                                  .indices = batch->indices,
                                  .bases = batch->bases}});
    if (std::ssize(outcomes) == batches_at_once) read(outcomes, *metrics, options);
    if (options.stop && options.stop->load() != 0) break;
  }
  read(outcomes, *metrics, options);
  return metrics;
}

}  // namespace whisker
