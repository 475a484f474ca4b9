// Sums over the planned pass, and their table.
#include "layers/analysis/summary.h"

#include "core/io/text.h"
#include "layers/memory_plan.h"

#include <algorithm>
#include <unordered_set>

namespace whisker {
namespace {

std::string bytes_text(int64_t bytes) {
  return human_bytes(static_cast<uint64_t>(bytes));
}

std::string memory_text(const char* pass, const MemoryPrediction& memory) {
  std::string text = fmt::format("{:<9}  {}: values {}", pass, bytes_text(memory.total()),
                                 bytes_text(memory.values));
  const auto part = [&](const char* name, int64_t bytes) {
    if (bytes > 0) text += fmt::format(" + {} {}", name, bytes_text(bytes));
  };
  part("gradients", memory.gradients);
  part("optimizer", memory.optimizer);
  part("activations", memory.activations);
  part("transient", memory.transient);
  part("scratch", memory.scratch);
  return text + "\n";
}

using Row = std::vector<std::string>;

// Columns as wide as their widest cell; the first three are text, the rest numbers.
std::string table_text(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += i < 3 ? fmt::format("{:<{}}  ", row[i], widths[i])
                    : fmt::format("{:>{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

ModelSummary summarize(const Model& model, const SummaryOptions& options) {
  const MemoryPlan plan = MemoryPlan::of(*model.net, model.input);
  const MemoryPlan training =
      MemoryPlan::of(*model.net, model.input, options.device, options.compute);
  const int64_t images = std::max<int64_t>(model.input[model.batch_axis], 1);
  ModelSummary summary{.input = model.input,
                       .batch = images,
                       .sequences = model.batch_axis == 1,
                       .layers = {},
                       .training = {},
                       .inference = {},
                       .notes = training.notes()};
  summary.notes.insert(summary.notes.end(), model.notes.begin(), model.notes.end());
  const auto width = static_cast<int64_t>(size_of(options.compute));
  std::unordered_set<const Module*> counted;  // a layer may run twice, its parameters count once
  for (const PlannedOperator& op : plan.operators()) {
    const Shape& output = plan.shape(op.output);
    LayerSummary row{.name = op.layer->path(),
                     .what = op.what,
                     .output = output,
                     .frozen = op.layer->frozen(),
                     .multiply_adds = op.cost.multiply_adds / images,
                     .activation_bytes = op.cost.view ? 0 : output.count() * width};
    if (counted.insert(op.layer).second) {
      for (const auto& parameter : op.layer->own_parameters()) {
        if (!parameter->is_buffer()) row.parameters += parameter->shape().count();
      }
    }
    summary.layers.push_back(std::move(row));
  }
  for (const auto& parameter : model.net->parameters()) {
    int64_t& total = parameter->is_buffer()   ? summary.buffers
                     : parameter->trainable() ? summary.trainable
                                              : summary.frozen;
    total += parameter->shape().count();
  }
  summary.multiply_adds = plan.multiply_adds() / images;

  const ArenaBytes arena = ParameterArena::bytes_of(
      model.net->parameters(),
      {.compute = options.compute, .wide_gradients = options.wide_gradients});
  const int64_t moments = options.moments_per_parameter + (options.averaged ? 1 : 0);
  const int64_t kept = training.kept_bytes(width);
  summary.training = {.values = arena.values,
                      .gradients = arena.gradients,
                      .optimizer = moments * arena.trainable,
                      .activations = kept,
                      .transient = std::max<int64_t>(0, training.training_bytes(width) - kept),
                      .scratch = training.scratch_bytes(width)};
  summary.inference = {.values = (summary.parameters() + summary.buffers) * element_bytes,
                       .activations = plan.inference_bytes(width),
                       .scratch = plan.scratch_bytes(width)};
  return summary;
}

std::string to_text(const ModelSummary& summary) {
  std::vector<Row> rows = {
      {"layer", "operator", "output", "parameters", "multiply-adds", "activations"}};
  rows.push_back({"input", "", summary.input.str(), "", "", ""});
  for (const LayerSummary& layer : summary.layers) {
    rows.push_back(
        {printable(layer.name), layer.what, layer.output.str(),
         layer.parameters == 0 ? "" : grouped(layer.parameters) + (layer.frozen ? " frozen" : ""),
         layer.multiply_adds == 0 ? "" : grouped(layer.multiply_adds),
         layer.activation_bytes == 0 ? "" : bytes_text(layer.activation_bytes)});
  }
  std::string text = table_text(rows);
  text += fmt::format("\nparameters {}: trainable {}, frozen {}\n", grouped(summary.parameters()),
                      grouped(summary.trainable), grouped(summary.frozen));
  text += fmt::format("multiply-adds per {} {}\n", summary.sequences ? "sequence" : "image",
                      grouped(summary.multiply_adds));
  if (!summary.notes.empty()) {
    text += fmt::format("fused: {}\n", fmt::join(summary.notes, "; "));
  }
  text += fmt::format("\npredicted memory for a batch of {}\n", summary.batch);
  text += memory_text("training", summary.training);
  text += memory_text("inference", summary.inference);
  return text;
}

}  // namespace whisker
