// whisker summary CONFIG: the network layer by layer, its size, work and memory.
#include "layers/analysis/summary.h"

#include "apps/commands/preset_config.h"
#include "apps/terminal/command.h"
#include "apps/terminal/terminal.h"
#include "core/io/json.h"
#include "core/nvidia/cuda_library.h"
#include "core/nvidia/cuda_usable.h"
#include "layers/memory_plan.h"
#include "train/data/run_data.h"
#include "train/experiment.h"
#include "train/model/freeze_layers.h"
#include "train/planning/memory_advice.h"
#include "train/resolve_config.h"

#include <filesystem>

namespace whisker {

namespace {

// The device of the configuration, wherever this runs: a model made for a GPU can be looked at
// here.
Device shown_device(const Config& config) {
  if (config.device != "auto") return Device::parse(config.device);
  return cuda_device_count() > 0 ? Device{DeviceKind::cuda} : cpu_device;
}

// What layers would compute in there.
DType shown_compute_dtype(const Config& config) {
  switch (config.precision) {
    case PrecisionKind::automatic:
      break;
    case PrecisionKind::f32:
      return DType::f32;
    case PrecisionKind::bf16:
      return DType::bf16;
    case PrecisionKind::f16:
      return DType::f16;
  }
  return shown_device(config).kind == DeviceKind::cuda ? DType::bf16 : DType::f32;
}

// Which of the two sizes of images the table is of; "" where there is one.
std::string sizes_text(const DataConfig& data) {
  const bool two = data.kind == DataKind::images && data.train_image_size > 0 &&
                   data.train_image_size != data.image_size;
  if (!two) return {};
  return fmt::format("images: training {} px, which the figures above are for; validation {} px\n",
                     data.train_image_size, data.image_size);
}

// Of sequences, how long they are where there are no data that say it.
std::string steps_text(const DataConfig& data, const BuildOptions& built) {
  std::error_code error;
  const bool known = data.kind == DataKind::images || data.kind == DataKind::series ||
                     std::filesystem::exists(data.train, error);
  if (known) return {};
  return fmt::format(
      "sequences of {}{} steps, assumed: nothing at data.train. Give data.train=PATH.\n",
      built.lengths ? "up to " : "", built.input[0]);
}

void write_memory(JsonWriter& json, const char* key, const MemoryPrediction& memory) {
  json.key(key).begin_object().field("values_bytes", memory.values);
  json.field("gradients_bytes", memory.gradients).field("optimizer_bytes", memory.optimizer);
  json.field("activations_bytes", memory.activations);
  json.field("transient_bytes", memory.transient).field("scratch_bytes", memory.scratch);
  json.field("total_bytes", memory.total()).end_object();
}

std::string as_json(const ModelSummary& summary, int64_t classes, bool assumed) {
  JsonWriter json;
  json.begin_object().field("schema_version", 1).field("batch", summary.batch);
  json.field("classes", classes).field("classes_assumed", assumed);
  json.list("input", summary.input).list("layers", summary.layers, [&](const LayerSummary& layer) {
    json.begin_object().field("name", layer.name).field("operator", layer.what);
    json.list("output", layer.output).field("parameters", layer.parameters);
    json.field("frozen", layer.frozen).field("multiply_adds", layer.multiply_adds);
    json.field("activation_bytes", layer.activation_bytes).end_object();
  });
  json.field("parameters", summary.parameters());
  json.field("trainable", summary.trainable).field("frozen", summary.frozen);
  json.field("buffers", summary.buffers).field("multiply_adds", summary.multiply_adds);
  json.list("notes", summary.notes).list("recomputed", summary.recomputed);
  write_memory(json, "training", summary.training);
  write_memory(json, "inference", summary.inference);
  return json.end_object().str() + "\n";
}

}  // namespace

void add_summary_command(CLI::App& app, Invocation& invocation) {
  CLI::App* summary =
      app.add_subcommand("summary", "Layers, parameters, work and memory of a model");
  struct SummaryArguments {
    std::string file;
    std::vector<std::string> overrides;
    int64_t classes = 0;
    bool json = false;
  };
  auto arguments = std::make_shared<SummaryArguments>();
  summary->add_option("CONFIG", arguments->file, "YAML file, or a preset's name")->required();
  summary->add_option("OVERRIDES", arguments->overrides, "section.key=value");
  summary
      ->add_option("--classes", arguments->classes,
                   "Number of classes (the folders in data.train, or 2)")
      ->check(CLI::Range(1, 1'000'000));
  summary->add_flag("--json", arguments->json, "One JSON object");
  set_action(summary, invocation, [arguments, &invocation] {
    ShownConfig shown = read_shown_config(
        arguments->file, arguments->overrides,
        {.given = arguments->classes, .options = "--classes N or data.train=DIR"}, invocation);
    const Config config = resolve_config(std::move(shown.config));
    std::error_code error;
    const bool assumed =
        arguments->classes == 0 && !std::filesystem::exists(config.data.train, error);
    BuildOptions options = expected_build(config);
    if (arguments->classes == 0) arguments->classes = shown.classes;
    if (arguments->classes > 0) options.classes = arguments->classes;
    const Model model = build_model(config.model, options);
    check_takes_both_sizes(model, config.data);
    freeze_layers(config, model);
    // What convolutions and recurrent layers work in depends on it, and on a GPU the kernels of
    // attention.
    const Device device = shown_device(config);
    const bool asks_gpu = device.kind == DeviceKind::cuda &&
                          MemoryPlan::of(*model.net, model.input).has_attention() &&
                          why_no_cuda(device).empty();
    if (device == cpu_device || asks_gpu) configure_backend(config, device);
    const ModelSummary result =
        summarize(model, summary_options(config, shown_compute_dtype(config), device));
    if (arguments->json) {
      print_result(as_json(result, options.classes, assumed));
      return 0;
    }
    std::string unused;
    for (const std::string& line : model.unused) unused += line + "\n";
    print_result(
        fmt::format("{}\n{}{}{}classes {}{}\n", to_text(result, table_width()), unused,
                    sizes_text(config.data), steps_text(config.data, options), options.classes,
                    assumed && shown.classes == 0
                        ? ", assumed: nothing at data.train. Give data.train=DIR or --classes N."
                        : ""));
    return 0;
  });
}

}  // namespace whisker
