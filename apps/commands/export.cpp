// whisker export WEIGHTS -o model.onnx: a trained network for other programs.
#include "apps/terminal/command.h"
#include "apps/terminal/facts.h"
#include "apps/terminal/inputs.h"
#include "apps/terminal/terminal.h"
#include "core/io/file_ending.h"
#include "core/io/outputs.h"
#include "core/io/text.h"
#include "core/tensor/device.h"
#include "train/model/hub_folder.h"
#include "train/onnx/export_onnx.h"

#include <filesystem>
#include <memory>

namespace whisker {
namespace {

struct ExportArguments {
  std::string weights;
  std::string out;
  bool force = false;
  OnnxOptions options;
  FactOptions facts;
};

constexpr OutputFormat onnx_format{.name = "an ONNX file of export", .is_own = is_own_onnx};

int run_export(const ExportArguments& arguments, const Invocation& invocation) {
  if (file_ending(arguments.out) != ".onnx") {
    fail(ErrorKind::usage, "export: expected a result named *.onnx, got {}", arguments.out);
  }
  Outputs outputs = make_outputs("export", arguments.force, invocation);
  outputs.add_input(arguments.weights);
  outputs.add_input(arguments.facts.classes);
  const std::unique_ptr<OutputFile> file = outputs.open("-o", arguments.out, onnx_format);
  const GivenFacts given = arguments.facts.read();
  const Network network = Network::load(arguments.weights, cpu_device, given);
  tell_notes(network.notes(), invocation);
  if (const auto& calibration = network.signature().calibration) {
    tell_notes({fmt::format("{}: its temperature of {} {}", printable(arguments.weights),
                            calibration->text(),
                            arguments.options.probabilities
                                ? "is part of the probabilities"
                                : "is not part of the logits: --probabilities exports it")},
               invocation);
  }
  const std::string bytes = export_onnx(network, arguments.options);
  file->write(bytes);
  outputs.commit(*file, "-o", onnx_format);
  if (invocation.verbosity >= 0) {
    tell(fmt::format("{}: {}\n", printable(arguments.out), human_bytes(bytes.size())));
  }
  return 0;
}

}  // namespace

void add_export_command(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("export", "Write a trained network as ONNX");
  auto arguments = std::make_shared<ExportArguments>();
  command->add_option("WEIGHTS", arguments->weights, weights_help)->required();
  command->add_option("-o,--output", arguments->out, "The file to write: *.onnx")
      ->required()
      ->check(check_output_name);
  add_force(command, arguments->force);
  command->add_flag("--probabilities", arguments->options.probabilities,
                    "End with probabilities in place of logits");
  command->add_flag(
      "--preprocess", arguments->options.preprocess,
      "Begin with pixels (batch, height, width, 3): resize, crop and normalise in it");
  arguments->facts.add_to(command);
  set_action(command, invocation, [&invocation, arguments] {
    arguments->weights = weights_in(arguments->weights);
    return run_export(*arguments, invocation);
  });
}

}  // namespace whisker
