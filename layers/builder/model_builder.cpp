// The `model` section: presets, its own keys, and what must hold at the network's end.
#include "layers/builder/model_builder.h"

#include "core/ops/ops.h"
#include "layers/builder/layer_list.h"
#include "layers/builder/presets.h"
#include "layers/recomputed_blocks.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace whisker {
namespace {

// `defaults` or `overrides`.
void check_settings(const YamlNode* settings) {
  if (!settings) return;
  settings->as_map();
  for (size_t i = 0; i < settings->size(); ++i) {
    if (!canonical_layer_type(settings->keys()[i]).empty()) {
      (*settings)[i].as_map();
      continue;
    }
    fail_unknown_key(*settings, i, "layer", layer_type_names());
  }
}

// The section's own keys and, behind them, its preset's, which may begin with another preset.
class Section {
 public:
  Section(const YamlNode& node, const BuildOptions& options) : node_(node) {
    sections_.push_back(node);
    if (const YamlNode* name = node.is_scalar() ? &node : node.find("preset")) {
      const Preset* preset = find_preset(name->as_string());
      if (!preset) fail_unknown(*name, "preset", preset_names());
      name_ = preset->name;
      std::ranges::move(preset_sections(*preset), std::back_inserter(sections_));
    }
    if (node.is_scalar() || node.is_sequence()) return;
    node.as_map();
    std::vector<std::string> known = {
        "preset", "layers",    "head", "defaults",  "initializer", "fuse",      "width",
        "depth",  "drop_path", "grid", "one_logit", "values",      "overrides", "recompute"};
    known.insert(known.end(), options.other_keys.begin(), options.other_keys.end());
    for (size_t i = 0; i < node.keys().size(); ++i) {
      if (std::find(known.begin(), known.end(), node.keys()[i]) == known.end()) {
        fail_unknown_key(node, i, "key", known);
      }
    }
  }

  const YamlNode* find(std::string_view key) const {
    if (node_.is_sequence()) return key == "layers" ? &node_ : nullptr;
    const YamlNode* found = nullptr;
    for (size_t i = 0; !found && i < sections_.size(); ++i) found = sections_[i].find(key);
    return found;
  }
  /// A map to which each section adds.
  YamlNode merged(std::string_view key) const { return merged_key(sections_, key); }

  /// The text of each `{word}` of the layers. Throws usage for words that a preset does not have.
  std::map<std::string, std::string> values() const {
    std::map<std::string, std::string> words;
    const YamlNode all = merged("values");
    for (size_t i = 0; i < all.size(); ++i) words[all.keys()[i]] = all[i].as_string();
    const YamlNode* given = node_.find("values");
    if (!given) return words;
    const YamlNode* own = sections_.size() > 1 ? sections_.back().find("values") : nullptr;
    const std::vector<std::string> known = own ? own->keys() : std::vector<std::string>();
    for (size_t i = 0; i < given->size(); ++i) {
      if (std::ranges::find(known, given->keys()[i]) != known.end()) continue;
      fail_unknown_key(*given, i, fmt::format("value of {}", name_), known);
    }
    return words;
  }
  /// Whether the section itself has this list: a preset's values are none of its words.
  bool has_own(std::string_view key) const { return sections_[0].find(key) != nullptr; }
  const std::string& preset_name() const { return name_; }

 private:
  const YamlNode& node_;
  std::vector<YamlNode> sections_;  // the node and its preset's
  std::string name_;
};

bool read_keras_start(const YamlNode* node) {
  if (!node || node->text() == "pytorch") return false;
  if (node->text() != "keras") node->fail_expected("pytorch or keras");
  return true;
}

// What the word `classes` stands for.
int64_t units_of_classes(const YamlNode* one_logit, int64_t classes) {
  if (!one_logit || !one_logit->as_bool() || classes == 0) return classes;
  if (classes != 2) {
    fail(ErrorKind::usage, "{}: one_logit: expected two classes, got {}. Leave one_logit out.",
         place_of(*one_logit), classes);
  }
  return 1;
}

void set_recompute(const YamlNode& node, Model& model) {
  std::vector<std::string> patterns;
  if (node.is_sequence()) {
    for (const YamlNode& name : node.items()) patterns.push_back(name.as_string());
    if (patterns.empty()) return;
  } else if (node.text() != "true" && node.text() != "false") {
    node.fail_expected("true, false or a list of names, as freeze has them");
  } else if (!node.as_bool()) {
    return;
  }
  try {
    recompute_blocks(*model.net, patterns);
  } catch (const Error& error) {
    fail(error.kind(), "{}: {}", place_of(node), error.what());
  }
  if (!recomputed_blocks(*model.net).empty()) return;
  model.unused.emplace_back(
      "model.recompute has no effect: the model has no sequential, residual, concat or multiply");
}

// Without a layer of `classes` extent, the head is the last one that has parameters.
void note_head(Model& model) {
  const ParameterList parameters = model.net->parameters();
  if (!model.head.empty() || parameters.empty()) return;
  const std::string& last = parameters.back()->name();
  model.head.push_back(last.substr(0, last.rfind('.')));
}

void check_output(const YamlNode& section, const BuildOptions& options, const Model& model) {
  if (options.classes == 0) return;
  const Shape& y = model.output;
  if (options.every_step) {
    if (y.rank() == 3 && y[2] == options.classes) return;
    fail(ErrorKind::usage,
         "{}: for {} tokens at every step expected ({},{},{}) at the end, got {}. Give recurrent "
         "layers `return_sequences: true`, and the last dense layer `units: classes`.",
         place_of(section), options.classes, options.input[0], options.input[1], options.classes,
         y);
  }
  const bool two_in_one = y.rank() == 2 && y[1] == 1 && options.classes == 2 &&
                          model.output_kind == OutputKind::sigmoid;
  if (two_in_one) return;
  if (y.rank() == 2 && y[1] == options.classes && model.output_kind == OutputKind::softmax) return;
  const int64_t samples = options.input[options.batch_axis];
  if (y.rank() == 2 && y[1] == options.classes) {
    fail(ErrorKind::usage,
         "{}: a sigmoid for each of {} classes would be several labels per example, and examples "
         "have one. Leave the sigmoid out, or use softmax{}.",
         place_of(section), options.classes,
         options.classes == 2 ? "; for two classes also `units: 1` with the sigmoid" : "");
  }
  const bool positions = options.batch_axis == 0 && y.rank() == 4;  // (N,H,W,F)
  fail(ErrorKind::usage, "{}: for {} classes expected ({},{}) at the end{}, got {}{}. {}.",
       place_of(section), options.classes, samples, options.classes,
       options.classes == 2 ? fmt::format(", or a sigmoid over ({},1)", samples) : std::string(),
       model.output_kind == OutputKind::sigmoid ? "a sigmoid over " : "", y,
       positions ? "Put global_avg_pool2d or flatten before the last dense layer, which else "
                   "computes at every position"
                 : "Use `units: classes` in the last dense layer");
}

}  // namespace

Model build_model(const YamlNode& section, const BuildOptions& options) {
  const Section keys(section, options);
  const YamlNode* layers = keys.find("layers");
  const YamlNode* head = keys.find("head");
  if (!layers) {
    fail(ErrorKind::usage, "{}: expected a list of `layers`, or a `preset`: one of {}",
         place_of(section), fmt::join(preset_names(), ", "));
  }
  const YamlNode* defaults = keys.find("defaults");
  check_settings(defaults);
  const YamlNode overrides = keys.merged("overrides");
  if (!overrides.is_null()) check_settings(&overrides);
  const auto words = keys.values();
  const YamlNode* fuse = keys.find("fuse");

  Model model{.net = std::make_shared<Sequential>(),
              .input = options.input,
              .batch_axis = options.batch_axis,
              .lengths = options.lengths,
              .preset = keys.preset_name()};
  const auto number = [&](const char* key, YamlRange<double> range, double otherwise) {
    const YamlNode* const node = keys.find(key);
    return node ? node->as_double(range) : otherwise;
  };
  const YamlNode* grid = keys.find("grid");
  LayerListBuilder builder({.defaults = defaults,
                            .overrides = &overrides,
                            .keras_start = read_keras_start(keys.find("initializer")),
                            .classes = units_of_classes(keys.find("one_logit"), options.classes),
                            .vocabulary = options.vocabulary,
                            .width = number("width", {.min = 0.05, .max = 20}, 1),
                            .grid = grid ? grid->as_int({.min = 1, .max = 256}) : 0,
                            .depth = number("depth", {.min = 0.05, .max = 20}, 1),
                            .drop_path = number("drop_path", {.min = 0, .max = 0.999}, 0)},
                           model);
  Flow flow{.shape = options.input};
  LayerNames names;
  const auto add = [&](const char* key, const YamlNode& list, bool tail) {
    const bool plain = words.empty() || keys.has_own(key);
    builder.add_list(plain ? list : list.with_words(words), *model.net, flow, names, tail);
  };
  add("layers", *layers, head == nullptr);
  if (head) add("head", *head, true);
  builder.set_drop_paths();
  builder.note_unused();
  model.net->set_fuse(!fuse || fuse->as_bool());
  if (const YamlNode* node = keys.find("recompute")) set_recompute(*node, model);
  note_head(model);
  if (model.net->size() == 0) layers->fail_expected("at least one layer");
  model.output = flow.shape;
  if (flow.shape.rank() == 2 && flow.shape[1] == 1) model.output_kind = OutputKind::sigmoid;
  if (options.classes > 0 && model.named_output.value_or(model.output_kind) != model.output_kind) {
    model.unused.emplace_back(
        "softmax over one unit would always be 1: taken as a sigmoid of two classes. Say "
        "`activation: sigmoid`, or `units: classes`");
  }
  check_output(section, options, model);
  return model;
}

Tensor probabilities(const Tensor& logits, OutputKind kind) {
  if (kind == OutputKind::softmax) return softmax(logits);
  const Tensor p = sigmoid(logits);
  return concat({affine(p, -1, 1), p}, -1);
}

}  // namespace whisker
