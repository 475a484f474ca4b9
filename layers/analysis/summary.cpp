// Sums over the planned pass, and their table.
#include "layers/analysis/summary.h"

#include "core/io/text.h"
#include "core/io/text_table.h"
#include "layers/memory_plan.h"
#include "layers/recomputed_blocks.h"

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
  return text;
}

// Behind `indent` columns, all lines but the first.
std::string hanging(const std::string& text, size_t width, size_t indent) {
  if (width <= indent) return text + "\n";
  const auto lines = wrap_text(text, width - indent, CutWords::never);
  return fmt::format("{}\n", fmt::join(lines, fmt::format("\n{:{}}", "", indent)));
}

}  // namespace

ModelSummary summarize(const Model& model, const SummaryOptions& options) {
  const MemoryPlan plan = MemoryPlan::of(*model.net, model.input);
  MemoryPlan training =
      MemoryPlan::of(*model.net, model.input, options.device, options.compute, options.recompute);
  training.set_lengths(model.lengths);
  const int64_t images = std::max<int64_t>(model.input[model.batch_axis], 1);
  ModelSummary summary{.input = model.input,
                       .batch = images,
                       .sequences = model.batch_axis == 1,
                       .layers = {},
                       .training = {},
                       .inference = {},
                       .notes = training.notes(),
                       .recomputed = recomputed_blocks(*model.net)};
  if (training.assumes_fused_attention()) {
    summary.notes.push_back(
        fmt::format("attention (assumed: {} is not here to ask)", options.device));
  }
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
  const int64_t kept = training.kept_bytes(width), alive = training.training_bytes(width);
  summary.training = {.values = arena.values,
                      .gradients = arena.gradients,
                      .optimizer = moments * arena.trainable,
                      .activations = kept,
                      .transient = std::max<int64_t>(0, alive - kept),
                      .scratch = training.training_bytes(width, true) - alive};
  summary.inference = {.values = (summary.parameters() + summary.buffers) * element_bytes,
                       .activations = plan.inference_bytes(width),
                       .scratch = plan.inference_bytes(width, true) - plan.inference_bytes(width)};
  return summary;
}

std::string to_text(const ModelSummary& summary, size_t width) {
  TextTable table({"layer", "operator", "output", ">parameters", ">multiply-adds", ">activations"});
  table.add({"input", "", summary.input.str()});
  for (const LayerSummary& layer : summary.layers) {
    table.add(
        {layer.name, layer.what, layer.output.str(),
         layer.parameters == 0 ? "" : grouped(layer.parameters) + (layer.frozen ? " frozen" : ""),
         layer.multiply_adds == 0 ? "" : grouped(layer.multiply_adds),
         layer.activation_bytes == 0 ? "" : bytes_text(layer.activation_bytes)});
  }
  std::string text = table.str("", width);
  text += fmt::format("\nparameters {}: trainable {}, frozen {}\n", grouped(summary.parameters()),
                      grouped(summary.trainable), grouped(summary.frozen));
  text += fmt::format("multiply-adds per {} {}\n", summary.sequences ? "sequence" : "image",
                      grouped(summary.multiply_adds));
  if (!summary.notes.empty()) {
    text += hanging(fmt::format("fused: {}", fmt::join(summary.notes, "; ")), width, 2);
  }
  if (!summary.recomputed.empty()) text += hanging(recomputed_text(summary.recomputed), width, 2);
  text += fmt::format("\npredicted memory for a batch of {}\n", summary.batch);
  text += hanging(memory_text("training", summary.training), width, 11);
  text += hanging(memory_text("inference", summary.inference), width, 11);
  return text;
}

}  // namespace whisker
