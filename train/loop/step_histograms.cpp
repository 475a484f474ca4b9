// Gradients are divided by what backward began with (the loss scale in f16, a batch's weight in an
// update of several), so that they are those of the batch's mean loss.
#include "train/loop/step_histograms.h"

#include <cmath>
#include <map>
#include <string>

namespace whisker {
namespace {

TensorSummary summary_of(const RecordedValues& values, const Shape& shape, double divisor = 1) {
  TensorSummary summary{.count = shape.count(), .statistics = values.summary()};
  TensorStatistics& s = summary.statistics;
  for (double* one : {&s.mean, &s.deviation, &s.minimum, &s.maximum, &s.norm}) *one /= divisor;
  return summary;
}

std::optional<TensorSummary> gradient_of(const TapeEntry& entry, double divisor) {
  const TapeOutput& output = entry.outputs[0];
  if (!output.gradient.known() || !(divisor > 0)) return std::nullopt;
  return summary_of(output.gradient, output.shape, divisor);
}

// Gradient that backward began with.
double first_gradient(const Recording& recording) {
  const std::vector<size_t> order = recording.backward_order();
  if (order.empty()) return 1;
  const RecordedValues& gradient = recording.entries[order[0]].outputs[0].gradient;
  return gradient.known() ? gradient.summary().maximum : 1;
}

std::optional<double> update_ratio(const std::vector<float>& before,
                                   const std::vector<float>& after) {
  double update = 0, weights = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double old = before[i], change = double{after[i]} - old;
    weights += old * old;
    update += change * change;
  }
  const double ratio = std::sqrt(update / weights);
  return std::isfinite(ratio) ? std::optional(ratio) : std::nullopt;
}

}  // namespace

StepHistograms::StepHistograms(const Experiment& experiment)
    : experiment_(experiment), recorder_({.values = true, .zero_units = true}) {
  for (const auto& parameter : experiment.arena->parameters()) {
    if (parameter->is_buffer()) continue;
    recorder_.name(parameter->value(), parameter->name());
    if (parameter->trains()) before_.push_back(experiment.arena->read(*parameter));
  }
}

HistogramRow StepHistograms::finish() {
  const Recording recording = recorder_.recording();
  const double divisor = first_gradient(recording);
  HistogramRow row;
  std::map<std::string, size_t> last;  // operator of each layer
  std::map<std::string, const TapeEntry*> leaves;
  for (size_t i = 0; i < recording.entries.size(); ++i) {
    const TapeEntry& entry = recording.entries[i];
    if (entry.kind == TapeKind::leaf) leaves[entry.name] = &entry;
    const bool shows = entry.kind == TapeKind::op && entry.name != recompute_name;
    if (shows && !entry.layer.empty() && entry.shape().count() > 0) last[entry.layer] = i;
  }
  for (size_t i = 0; i < recording.entries.size(); ++i) {
    const TapeEntry& entry = recording.entries[i];
    const auto found = last.find(entry.layer);
    if (found == last.end() || found->second != i) continue;
    LayerHistograms layer{.layer = entry.layer,
                          .op = entry.name,
                          .activations = summary_of(entry.outputs[0].value, entry.shape()),
                          .gradients = gradient_of(entry, divisor)};
    if (entry.outputs[0].zero_units && entry.shape().rank() > 0) {
      layer.units = entry.shape()[-1];
      layer.dead_units = entry.outputs[0].zero_units;
    }
    row.layers.push_back(std::move(layer));
  }
  size_t at = 0;
  for (const auto& parameter : experiment_.arena->parameters()) {
    if (parameter->is_buffer()) continue;
    const Tensor& master = parameter->master();
    ParameterHistograms one{.name = parameter->name(),
                            .weights = summary_of(RecordedValues::of(master), master.shape())};
    if (const auto leaf = leaves.find(parameter->name()); leaf != leaves.end()) {
      one.gradients = gradient_of(*leaf->second, divisor);
    }
    if (parameter->trains()) {
      one.update_ratio = update_ratio(before_[at++], experiment_.arena->read(*parameter));
    }
    row.parameters.push_back(std::move(one));
  }
  return row;
}

}  // namespace whisker
