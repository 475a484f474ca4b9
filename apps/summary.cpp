// whisker summary CONFIG: the network layer by layer, its size, work and memory.
#include "layers/summary.h"

#include "apps/command.h"
#include "train/experiment.h"

namespace whisker {

void add_summary_command(CLI::App& app, Invocation& invocation) {
  CLI::App* summary =
      app.add_subcommand("summary", "Layers, parameters, work and memory of a model");
  struct Arguments {
    std::string file;
    std::vector<std::string> overrides;
  };
  auto arguments = std::make_shared<Arguments>();
  summary->add_option("CONFIG", arguments->file, "YAML file")->required();
  summary->add_option("OVERRIDES", arguments->overrides, "section.key=value");
  summary->callback([&invocation, arguments] {
    invocation.run = [arguments] {
      const Config config = read_config(arguments->file, arguments->overrides);
      const PictureSize size = preprocess_of(config.data).output();
      const Model model = build_model(
          model_section(config),
          {.input = {config.train.batch_size, size.height, size.width, config.data.channels},
           .classes = class_count(config)});
      if (!config.freeze.empty()) model.net->freeze(config.freeze);
      print_result(to_text(summarize(model, {.moments_per_parameter = static_cast<int>(
                                                 Optimizer::moment_names(config.optimizer).size()),
                                             .averaged = config.ema.decay > 0})));
      return 0;
    };
  });
}

}  // namespace whisker
