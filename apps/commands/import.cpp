// whisker import FILE -o OUT: a weights file from elsewhere as safetensors that says which network
// it is, its classes and its preprocessing, where these are known.
#include "apps/terminal/command.h"
#include "apps/terminal/facts.h"
#include "apps/terminal/inputs.h"
#include "apps/terminal/terminal.h"
#include "core/io/counted.h"
#include "core/io/file_ending.h"
#include "core/io/outputs.h"
#include "core/io/safetensors_stream.h"
#include "core/io/text.h"
#include "layers/builder/presets.h"
#include "layers/weights/preset_of_file.h"
#include "layers/weights/tensor_names.h"
#include "train/model/hub_folder.h"
#include "train/model/network.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>

namespace whisker {
namespace {

struct ImportArguments {
  std::string file;
  std::string out;
  bool force = false;
  std::string names = "preset";
  FactOptions facts;
};

constexpr OutputFormat import_format{.name = "import"};

// timm's VGG has convolutions for torchvision's first two dense layers: the same values, (O, C k k)
// there and (O, C, k, k) here.
void shape_as_named(SafetensorsTensor& tensor) {
  auto& shape = tensor.shape;
  const bool first = tensor.name == "pre_logits.fc1.weight";
  if ((first || tensor.name == "pre_logits.fc2.weight") && shape.size() == 2) {
    const uint64_t side = first ? 7 : 1;
    if (shape[1] % (side * side) == 0) shape = {shape[0], shape[1] / (side * side), side, side};
  } else if ((tensor.name == "classifier.0.weight" || tensor.name == "classifier.3.weight") &&
             shape.size() == 4) {
    shape = {shape[0], shape[1] * shape[2] * shape[3]};
  }
}

// The file's tensors as the result has them.
std::vector<SafetensorsTensor> result_tensors(const SafetensorsFile& file,
                                              const std::string& naming, const std::string& arch) {
  if (naming == "preset") return tensors_of_preset(arch, file);
  if (naming == "file") return unwrapped_tensors("", file);
  std::vector<SafetensorsTensor> tensors = unwrapped_tensors(arch, file);
  std::vector<std::string> names;
  for (const SafetensorsTensor& tensor : tensors) names.push_back(tensor.name);
  names = names_of(naming == "timm" ? Naming::timm : Naming::torchvision, names);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == tensors[i].name) continue;
    tensors[i].name = names[i];
    shape_as_named(tensors[i]);
  }
  return tensors;
}

std::map<std::string, std::string> metadata_of(const SafetensorsFile& file, const GivenFacts& given,
                                               const Invocation& invocation) {
  std::map<std::string, std::string> metadata = file.metadata();
  metadata.emplace("format", "pt");
  const auto arch = metadata.find("arch");
  const bool described =
      metadata.contains("config") || (arch != metadata.end() && find_preset(arch->second));
  const bool asked = !given.classes.empty() || !given.preprocess.empty() || !given.model.empty();
  if (!described && !asked && !preset_of_file(file, {.metadata = network_in_metadata(file)})) {
    const std::string nearest = nearest_preset(file);
    std::vector<std::string> notes = file.notes();
    notes.push_back(fmt::format(
        "{}: no preset has its tensors{}: the result does not say which network it is{}{}",
        printable(file.name()), name_in_vain(file), nearest.empty() ? "" : "; ",
        printable(nearest)));
    tell_notes(notes, invocation);
    return metadata;
  }
  const WeightsInfo info = WeightsInfo::from_file(file, given);
  tell_notes(info.notes, invocation);
  for (auto& [key, value] : info.to_metadata()) {
    if (value.empty() || key == "epoch" || key == "whisker_version") continue;
    metadata.insert_or_assign(key, value);
  }
  return metadata;
}

int run_import(const ImportArguments& arguments, const Invocation& invocation) {
  Outputs outputs = make_outputs("import", arguments.force, invocation);
  outputs.add_input(arguments.file);
  outputs.add_input(arguments.facts.classes);
  const std::unique_ptr<OutputFile> out = outputs.open("-o", arguments.out, import_format);
  const std::string ending = file_ending(arguments.out);
  constexpr std::string_view other_formats[] = {".onnx", ".pth", ".pt",   ".bin",
                                                ".ckpt", ".h5",  ".keras"};
  if (std::ranges::find(other_formats, ending) != std::end(other_formats)) {
    fail(ErrorKind::usage,
         "import: -o: expected a name that ends in .safetensors, as that is what is written, got "
         "{}.{}",
         excerpt(arguments.out), ending == ".onnx" ? " 'whisker export' writes ONNX." : "");
  }
  const GivenFacts given = arguments.facts.read();
  const SafetensorsFile file = open_described_weights(arguments.file, given.weights_key);
  const auto metadata = metadata_of(file, given, invocation);
  const auto arch = metadata.find("arch");
  if (arch != metadata.end() || metadata.contains("config")) {  // a network that can be used
    for (const SafetensorsTensor& tensor : file.tensors()) check_finite(file, tensor);
  }
  const std::vector<SafetensorsTensor> tensors =
      result_tensors(file, arguments.names, arch == metadata.end() ? std::string() : arch->second);
  if (const size_t beside = file.tensors().size() - tensors.size(); beside > 0) {
    tell_notes({fmt::format("{}: {} left out; --names file keeps all", printable(file.name()),
                            counted(static_cast<int64_t>(beside), "tensor beside the network is",
                                    "tensors beside the network are"))},
               invocation);
  }
  std::vector<SafetensorsEntry> entries;
  std::set<std::string_view> seen;
  for (const SafetensorsTensor& tensor : tensors) {
    if (!seen.insert(tensor.name).second) {
      fail(ErrorKind::checkpoint, "{}: two tensors stand for '{}'; keep one of them", file.name(),
           tensor.name);
    }
    entries.push_back(
        {.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = [&tensor] {
           return tensor.bytes;
         }});
  }
  uint64_t bytes = 0;
  write_safetensors(
      [&](std::span<const std::byte> some) {
        out->write(some);
        bytes += some.size();
      },
      arguments.out, metadata, std::move(entries));
  outputs.commit(*out, "-o", import_format);
  if (invocation.verbosity >= 0) {
    tell(fmt::format("{}: {}, {}\n", printable(arguments.out),
                     counted(std::ssize(tensors), "tensor"), human_bytes(bytes)));
  }
  return 0;
}

}  // namespace

void add_import_command(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("import", "Convert weights to safetensors");
  auto arguments = std::make_shared<ImportArguments>();
  command->add_option("FILE", arguments->file, weights_help)->required();
  command->add_option("-o,--output", arguments->out, "The safetensors file to write")
      ->required()
      ->check(check_output_name);
  add_force(command, arguments->force);
  command
      ->add_option("--names", arguments->names,
                   "Tensor names: those of the preset, timm's, torchvision's, or the file's own")
      ->capture_default_str()
      ->check(CLI::IsMember({"preset", "timm", "torchvision", "file"}));
  arguments->facts.add_to(command);
  set_action(command, invocation, [&invocation, arguments] {
    arguments->file = weights_in(arguments->file);
    return run_import(*arguments, invocation);
  });
}

}  // namespace whisker
