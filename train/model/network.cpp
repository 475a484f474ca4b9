// Reads and writes metadata, and loads a network from a weights file.
#include "train/model/network.h"

#include "core/autograd/autograd.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/ops/ops.h"
#include "core/version.h"
#include "layers/builder/presets.h"
#include "layers/weights/preset_of_file.h"
#include "layers/weights/weights.h"
#include "train/config/preprocess_config.h"
#include "train/config/unlikely_settings.h"
#include "train/model/hub_folder.h"
#include "train/model/imagenet_classes.h"

#include <algorithm>
#include <filesystem>

namespace whisker {

Tensor Network::run_layers(LayerRange layers, const Tensor& inputs, const Pass& pass) const {
  Tensor x = inputs.to(arena_->device());
  if (is_floating(x.dtype())) x = x.to(arena_->compute_dtype());
  return model_.net->forward_range(layers.begin, layers.end, {.y = x}, pass).y;
}

void Network::fix_weights(bool capture) {
  model_.net->fix_weights();
  if (capture) graphs_ = std::make_shared<OutputGraphs>(arena_->device());
}

Tensor Network::outputs(const Tensor& inputs, const Pass& pass) const {
  const auto forward = [&](const Tensor& x) {
    return run_layers({0, model_.net->size()}, x, pass).to(DType::f32);
  };
  const bool observed = grad_mode.enabled || grad_mode.observer;
  const bool replayed = graphs_ && inputs.rank() == 4 && !pass.training && !observed;
  return replayed ? graphs_->run(inputs, forward) : forward(inputs);
}

Tensor Network::outputs(const Batch& batch, Pass pass) const {
  if (batch.first_layer == 0 && !batch.lengths.defined()) return outputs(batch.inputs, pass);
  if (batch.lengths.defined()) pass.lengths = batch.lengths.to(arena_->device());
  return run_layers({batch.first_layer, model_.net->size()}, batch.inputs, pass).to(DType::f32);
}

Tensor Network::calibrated(const Tensor& logits) const {
  if (!signature_.calibration) return logits;
  return affine(logits, 1 / signature_.calibration->temperature, 0);
}

void Network::check_outputs(std::span<const float> outputs, std::string_view example) const {
  if (all_finite(DType::f32, std::as_bytes(outputs))) return;
  const bool rounded = arena_->compute_dtype() != DType::f32;
  fail(ErrorKind::checkpoint,
       "{}: expected outputs that are numbers, got NaN or Inf for {}. Its weights are too large or "
       "damaged, or its training diverged: use an earlier or another file{}.",
       file_, excerpt(example), rounded ? ", or --precision f32" : "");
}

void Network::refuse_input() const {
  fail(ErrorKind::usage, "this network was trained on {}, not on what was given",
       signature_.examples());
}

namespace {

using Metadata = std::map<std::string, std::string>;

bool has(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found != metadata.end() && !found->second.empty();
}

// The preset that a file holds, where its metadata do not say it or the user says another one.
std::optional<PresetOfFile> recognised(const SafetensorsFile& file, const std::string& model,
                                       Metadata& metadata) {
  const auto arch = metadata.find("arch");
  const std::string stored = arch == metadata.end() ? "" : arch->second;
  if (has(metadata, "config") || has(metadata, "sequence")) {
    const Preset* const asked = find_preset(model);
    if (!model.empty() && (!asked || asked->name != stored)) {
      const bool trained = file.network().empty();
      fail(ErrorKind::usage, "--model: {} says which network {}{}; leave --model out, got {}",
           file.name(), trained ? "`whisker train` trained" : "it holds, by " + file.network_by(),
           stored.empty() ? "" : ", " + printable(stored), excerpt(model));
    }
    return std::nullopt;
  }
  const bool described = find_preset(stored) && has(metadata, "classes");
  if (model.empty() && described) return std::nullopt;
  auto preset = preset_of_file(file, {.model = model, .metadata = network_in_metadata(file)});
  // What the file says follows from another network.
  if (preset && described && preset->name != stored) metadata.erase("preprocess");
  return preset;
}

// What a file of 1,000 classes and a preset's tensors need not say.
void add_recognised(const SafetensorsFile& file, const GivenFacts& given, Metadata& metadata,
                    std::vector<std::string>& notes) {
  const std::optional<PresetOfFile> preset = recognised(file, given.model, metadata);
  if (!preset) {
    if (has(metadata, "config") || has(metadata, "arch") || has(metadata, "sequence")) return;
    const std::string nearest = nearest_preset(file);
    fail(ErrorKind::checkpoint,
         "{}: neither 'config' nor 'arch' in the file's metadata describes the network, and no "
         "preset has its tensors{}{}{}. Describe the network in a configuration, and use the file "
         "as --init of a training run.",
         file.name(), name_in_vain(file), nearest.empty() ? "" : "; ", nearest);
  }
  const bool one_logit = preset->classes == 1;
  const int64_t classes = one_logit ? 2 : preset->classes;
  if (const auto stored = classes_of(metadata, file.name());
      !stored.empty() && std::ssize(stored) != classes) {
    fail(ErrorKind::checkpoint, "{}: expected {} names of classes, as its head has outputs, got {}",
         file.name(), classes, stored.size());
  }
  metadata["arch"] = preset->name;
  if (one_logit) {
    metadata["config"] = fmt::format("model: {{preset: {}, one_logit: true}}\n", preset->name);
  }
  std::string note = fmt::format("{}: recognised by {} as {} of {} classes", printable(file.name()),
                                 preset->by, preset->name, classes);
  if (classes == std::ssize(imagenet_classes()) + 1) {
    note += " (one more than ImageNet's: TensorFlow's begin with a background class)";
  }
  if (one_logit) note += ", whose one logit is the second's before a sigmoid";
  if (!has(metadata, "classes") && given.classes.empty()) {
    std::vector<std::string> names = imagenet_classes();
    if (classes == std::ssize(names)) {
      note += ", named as ImageNet's";
    } else {
      names.clear();
      for (int64_t c = 0; c < classes; ++c) names.push_back(fmt::to_string(c));
      note += ", numbered from 0: --classes FILE names them, one per line";
    }
    metadata["classes"] = class_names_json(names);
  }
  std::string unknown_tag;
  if (!has(metadata, "preprocess")) {
    unknown_tag = unknown_tag_note(file.name(), *preset);
    const WeightsTag& tag = preset->tag;
    if (!tag.data.is_null()) {
      metadata["preprocess"] = preset_preprocess(preset->name, tag.data)->json();
    }
    if (given.preprocess.empty()) {
      note += tag.data.is_null()
                  ? fmt::format("; images as the preset {} expects them", preset->name)
                  : fmt::format("; images as its weights {} expect them: {}", excerpt(tag.name),
                                fmt::join(tag.settings(), ", "));
    }
  }
  notes.push_back(note);
  std::error_code error;
  const auto beside = std::filesystem::path(file.name()).parent_path() / "config.json";
  if (file.network_by() != by_config_json && std::filesystem::exists(beside, error)) {
    notes.push_back(
        fmt::format("{} beside it is not read, as it is beside model.safetensors or "
                    "pytorch_model.bin: --model, --classes and --input say what else "
                    "is known",
                    printable(beside.string())));
  }
  for (std::string& other : notes_on(file.name(), *preset)) notes.push_back(std::move(other));
  if (!unknown_tag.empty()) notes.push_back(std::move(unknown_tag));
  if (!given.classes.empty() && classes != std::ssize(given.classes)) {
    fail(ErrorKind::usage, "--classes: expected {} names for {}, got {}", classes, file.name(),
         given.classes.size());
  }
}

// What is unexpected in names from --classes, and beside those stored in the file, if it has some.
void check_given_classes(const SafetensorsFile& file, const std::vector<std::string>& given,
                         std::vector<std::string>& notes) {
  std::vector<std::string> sorted = given;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  // Two of ImageNet's classes are called crane.
  if (twice != sorted.end() && given.size() != imagenet_classes().size()) {
    fail(ErrorKind::usage, "--classes: expected every name once, got {} again", excerpt(*twice));
  }
  if (!has(file.metadata(), "classes")) return;
  const std::vector<std::string> own = classes_of(file.metadata(), file.name());
  const auto [old_name, new_name] = std::ranges::mismatch(own, given);
  if (old_name == own.end() || new_name == given.end()) return;
  if (std::ranges::is_permutation(own, given)) {
    fail(ErrorKind::usage,
         "--classes: expected the names of {} in their order, or other names, got its own in "
         "another order: class {} is {}, not {}. Leave --classes out for the stored names.",
         file.name(), old_name - own.begin() + 1, excerpt(*old_name), excerpt(*new_name));
  }
  notes.push_back(fmt::format("{}: --classes renames its classes, such as {} to {}", file.name(),
                              excerpt(*old_name), excerpt(*new_name)));
}

// Weights are shared; where their user's data and runs lie is nobody's business. What evaluates or
// resumes a run reads config.yaml in its folder.
std::string without_paths(const std::string& config) {
  try {
    YamlNode root = YamlNode::parse(config, "config");
    bool changed = false;
    for (const std::string_view key : path_keys) {
      const YamlNode* value = root.is_map() ? root.find_path(key) : nullptr;
      if (!value || !value->is_scalar() || value->text().empty()) continue;
      root.set(key, YamlNode::parse(key == "runs" ? "runs" : "\"\"", "config"));
      changed = true;
    }
    return changed ? root.emit() : config;
  } catch (const Error&) {  // of a file made elsewhere, whose 'config' is another format's
    return config;
  }
}

}  // namespace

std::map<std::string, std::string> WeightsInfo::to_metadata() const {
  std::map<std::string, std::string> metadata = {
      {"format", "pt"},
      {"classes", class_names_json(signature.classes)},
      {signature.input_key(), signature.input_json()},
      {"config", without_paths(config)},
      {"metrics", metrics},
      {"epoch", fmt::format("{}", epoch)},
      {"whisker_version", version},
  };
  if (!arch.empty()) metadata["arch"] = arch;
  if (!signature.positive_class.empty()) metadata["positive_class"] = signature.positive_class;
  if (signature.calibration) metadata[calibration_key] = signature.calibration->json();
  return metadata;
}

WeightsInfo WeightsInfo::from_file(const SafetensorsFile& file, const GivenFacts& given) {
  Metadata metadata = file.metadata();
  std::vector<std::string> notes = file.notes();
  add_recognised(file, given, metadata, notes);
  if (!given.classes.empty()) {
    const std::vector<std::string> stored = classes_of(metadata, file.name());
    if (!stored.empty() && stored.size() != given.classes.size()) {
      fail(ErrorKind::usage, "--classes: expected {} names for {}, got {}", stored.size(),
           file.name(), given.classes.size());
    }
    if (stored.empty() && has(metadata, "sequence")) {
      fail(ErrorKind::usage, "--classes: expected none, as the network of {} has no classes",
           file.name());
    }
    check_given_classes(file, given.classes, notes);
    metadata["classes"] = class_names_json(given.classes);
    const auto positive = std::ranges::find(stored, metadata["positive_class"]);
    if (positive != stored.end()) {
      metadata["positive_class"] = given.classes[static_cast<size_t>(positive - stored.begin())];
    }
  }
  const auto find = [&](const char* key) { return has(metadata, key) ? metadata[key] : ""; };
  WeightsInfo info{.signature = Signature::from_metadata(metadata, file.name()),
                   .config = find("config"),
                   .arch = find("arch"),
                   .metrics = find("metrics"),
                   .notes = std::move(notes)};
  if (!given.positive_class.empty()) {
    info.signature.set_positive_class(given.positive_class, ErrorKind::usage, "--positive-class");
  }
  if (info.config.empty() && info.arch.empty()) {  // of sequences
    fail(ErrorKind::checkpoint,
         "{}: neither 'config' nor 'arch' in the file's metadata describes the network",
         file.name());
  }
  if (!given.preprocess.empty()) {
    const auto* preprocess = std::get_if<Preprocess>(&info.signature.input);
    if (!preprocess) {
      fail(ErrorKind::usage, "--input: expected weights of a network on images, got {}",
           file.name());
    }
    const Preprocess changed = changed_preprocess(*preprocess, given.preprocess);
    const std::string replaced = replaced_settings(*preprocess, changed);
    if (!replaced.empty()) {
      info.notes.push_back(fmt::format("{}: --input {}", printable(file.name()), replaced));
    }
    const std::string units = units_note(changed.normalisation, changed.channels);
    if (!units.empty()) info.notes.push_back("--input: " + units);
    info.signature.input = changed;
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

Network Network::load(const std::filesystem::path& path, Device device, const GivenFacts& given,
                      DType compute) {
  return load(open_described_weights(path, given.weights_key), device, given, compute);
}

Network Network::load(const SafetensorsFile& file, Device device, const GivenFacts& given,
                      DType compute) {
  WeightsInfo info = WeightsInfo::from_file(file, given);
  Model model = info.build(file.name()).model;
  // Nothing is trained here: no gradients, and no initial values to be overwritten.
  for (const auto& parameter : model.net->parameters()) parameter->set_trainable(false);
  auto arena = std::make_shared<ParameterArena>(model.net->parameters(), device, std::nullopt,
                                                ArenaTypes{.compute = compute});
  const LoadReport report = load_weights(file, model, *arena);
  Network network(std::move(model), std::move(arena), std::move(info.signature));
  network.notes_ = std::move(info.notes);
  for (std::string& note : report.notes(file.name())) network.notes_.push_back(std::move(note));
  network.file_ = file.name();
  if (const auto& calibration = network.signature_.calibration) {
    network.notes_.push_back(fmt::format("{}: probabilities are those at its temperature of {}",
                                         printable(file.name()), calibration->text()));
  }
  return network;
}

}  // namespace whisker
