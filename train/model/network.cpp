// Reads and writes metadata, and loads a network from a weights file.
#include "train/model/network.h"

#include "core/io/json.h"
#include "core/version.h"
#include "layers/weights/weights.h"

namespace whisker {

Tensor Network::run_layers(LayerRange layers, const Tensor& inputs, const Pass& pass) const {
  Tensor x = inputs.to(arena_->device());
  if (is_floating(x.dtype())) x = x.to(arena_->compute_dtype());
  return model_.net->forward_range(layers.begin, layers.end, {.y = x}, pass).y;
}

Tensor Network::outputs(const Tensor& inputs, const Pass& pass) const {
  return run_layers({0, model_.net->size()}, inputs, pass).to(DType::f32);
}

Tensor Network::outputs(const Batch& batch, Pass pass) const {
  if (batch.lengths.defined()) pass.lengths = batch.lengths.to(arena_->device());
  return run_layers({batch.first_layer, model_.net->size()}, batch.inputs, pass).to(DType::f32);
}

void Network::refuse_input() const {
  fail(ErrorKind::usage, "this network was trained on {}, not on what was given",
       signature_.examples());
}

std::map<std::string, std::string> WeightsInfo::to_metadata() const {
  JsonWriter names;
  names.begin_array();
  for (const std::string& name : signature.classes) names.value(name);
  names.end_array();
  std::map<std::string, std::string> metadata = {
      {"format", "pt"},
      {"classes", names.str()},
      {signature.input_key(), signature.input_json()},
      {"config", config},
      {"metrics", metrics},
      {"epoch", fmt::format("{}", epoch)},
      {"whisker_version", version},
  };
  if (!arch.empty()) metadata["arch"] = arch;
  return metadata;
}

WeightsInfo WeightsInfo::from_file(const SafetensorsFile& file) {
  const auto find = [&](const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string() : found->second;
  };
  WeightsInfo info{.signature = Signature::from_metadata(file.metadata(), file.name()),
                   .config = find("config"),
                   .arch = find("arch"),
                   .metrics = find("metrics")};
  if (info.config.empty() && info.arch.empty()) {
    fail(ErrorKind::checkpoint,
         "{}: neither 'config' nor 'arch' in the file's metadata describes the network",
         file.name());
  }
  return info;
}

WeightsInfo::Built WeightsInfo::build(const std::string& file) const {
  try {
    const std::string source = file + (config.empty() ? ": arch" : ": config");
    YamlNode section = YamlNode::parse(config.empty() ? arch : config, source);
    if (!config.empty()) {
      const YamlNode* model = section.find("model");
      section = model ? YamlNode(*model) : YamlNode::parse(arch, source);
    }
    Model model = build_model(section, signature.build_options(1, signature.usual_steps()));
    return {std::move(section), std::move(model)};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) throw;
    fail(ErrorKind::checkpoint, "{} The configuration in the weights file is damaged.",
         error.what());
  }
}

Network Network::load(const std::filesystem::path& path, Device device) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  WeightsInfo info = WeightsInfo::from_file(file);
  Model model = info.build(file.name()).model;
  // Nothing is trained here: no gradients, and no initial values to be overwritten.
  for (const auto& parameter : model.net->parameters()) parameter->set_trainable(false);
  auto arena = std::make_shared<ParameterArena>(model.net->parameters(), device, std::nullopt);
  load_weights(file, model, *arena);
  return Network(std::move(model), std::move(arena), std::move(info.signature));
}

}  // namespace whisker
