// whisker summary CONFIG: the network layer by layer, its size, work and memory.
#include "layers/summary.h"

#include "apps/command.h"
#include "core/cuda_library.h"
#include "train/memory_advice.h"
#include "train/run_data.h"

#include <filesystem>

namespace whisker {

namespace {

// The device of the configuration, wherever this runs: a model made for a GPU can be looked at
// here.
DeviceKind shown_device(const Config& config) {
  if (config.device != "auto") return Device::parse(config.device).kind;
  return cuda_device_count() > 0 ? DeviceKind::cuda : DeviceKind::cpu;
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
  return shown_device(config) == DeviceKind::cuda ? DType::bf16 : DType::f32;
}

// Which of the two sizes of pictures the table is of; "" where there is one.
std::string sizes_text(const DataConfig& data) {
  const bool two = data.kind == DataKind::pictures && data.train_image_size > 0 &&
                   data.train_image_size != data.image_size;
  if (!two) return {};
  return fmt::format(
      "pictures: training {} px, which the figures above are for; validation {} px\n",
      data.train_image_size, data.image_size);
}

}  // namespace

void add_summary_command(CLI::App& app, Invocation& invocation) {
  CLI::App* summary =
      app.add_subcommand("summary", "Layers, parameters, work and memory of a model");
  struct Arguments {
    std::string file;
    std::vector<std::string> overrides;
    int64_t classes = 0;
  };
  auto arguments = std::make_shared<Arguments>();
  summary->add_option("CONFIG", arguments->file, "YAML file")->required();
  summary->add_option("OVERRIDES", arguments->overrides, "section.key=value");
  summary
      ->add_option("--classes", arguments->classes,
                   "Number of classes (the folders in data.train, or 2)")
      ->check(CLI::Range(1, 1'000'000));
  summary->callback([&invocation, arguments] {
    invocation.run = [arguments] {
      const Config config = read_config(arguments->file, arguments->overrides);
      std::error_code error;
      const bool assumed =
          arguments->classes == 0 && !std::filesystem::exists(config.data.train, error);
      BuildOptions options = expected_build(config);
      if (arguments->classes > 0) options.classes = arguments->classes;
      const Model model = build_model(model_section(config), options);
      check_takes_both_sizes(model, config.data);
      if (!config.freeze.empty()) model.net->freeze(config.freeze);
      const ModelSummary result = summarize(
          model, summary_options(config, shown_compute_dtype(config), shown_device(config)));
      print_result(fmt::format(
          "{}\n{}classes {}{}\n", to_text(result), sizes_text(config.data), options.classes,
          assumed ? ", assumed: nothing at data.train. Give data.train=DIR or --classes N." : ""));
      return 0;
    };
  });
}

}  // namespace whisker
