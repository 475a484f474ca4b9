// The `model` section: presets, its own keys, and what must hold at the network's end.
#include "layers/builder/model_builder.h"

#include "core/ops/ops.h"
#include "layers/builder/layer_list.h"
#include "layers/builder/presets.h"

#include <algorithm>

namespace whisker {
namespace {

void check_defaults(const YamlNode* defaults) {
  if (!defaults) return;
  defaults->as_map();
  for (size_t i = 0; i < defaults->size(); ++i) {
    if (!canonical_layer_type(defaults->keys()[i]).empty()) {
      (*defaults)[i].as_map();
      continue;
    }
    fail_unknown_key(*defaults, i, "layer", layer_type_names());
  }
}

// The section's own keys and, behind them, its preset's, which may begin with another preset.
class Section {
 public:
  Section(const YamlNode& node, const BuildOptions& options) : node_(node) {
    const YamlNode* name = node.is_scalar() ? &node : node.find("preset");
    while (name) {
      const Preset* preset = find_preset(name->as_string());
      if (!preset) fail_unknown(*name, "preset", preset_names());
      if (name_.empty()) name_ = preset->name;
      presets_.push_back(YamlNode::parse(preset->text, fmt::format("preset {}", preset->name)));
      name = presets_.back().find("preset");
    }
    if (node.is_scalar() || node.is_sequence()) return;
    node.as_map();
    std::vector<std::string> known = {"preset",      "layers", "head",     "defaults",
                                      "initializer", "fuse",   "width",    "depth",
                                      "drop_path",   "grid",   "one_logit"};
    known.insert(known.end(), options.other_keys.begin(), options.other_keys.end());
    for (size_t i = 0; i < node.keys().size(); ++i) {
      if (std::find(known.begin(), known.end(), node.keys()[i]) == known.end()) {
        fail_unknown_key(node, i, "key", known);
      }
    }
  }

  const YamlNode* find(std::string_view key) const {
    if (node_.is_sequence()) return key == "layers" ? &node_ : nullptr;
    const YamlNode* found = node_.find(key);
    for (size_t i = 0; !found && i < presets_.size(); ++i) found = presets_[i].find(key);
    return found;
  }
  const std::string& preset_name() const { return name_; }

 private:
  const YamlNode& node_;
  std::vector<YamlNode> presets_;
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
  fail(ErrorKind::usage,
       "{}: for {} classes expected ({},{}) at the end{}, got {}{}. Use `units: classes` in the "
       "last dense layer.",
       place_of(section), options.classes, samples, options.classes,
       options.classes == 2 ? fmt::format(", or a sigmoid over ({},1)", samples) : std::string(),
       model.output_kind == OutputKind::sigmoid ? "a sigmoid over " : "", y);
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
  check_defaults(defaults);
  const YamlNode* fuse = keys.find("fuse");

  Model model{.net = std::make_shared<Sequential>(),
              .input = options.input,
              .batch_axis = options.batch_axis,
              .preset = keys.preset_name()};
  const auto number = [&](const char* key, YamlRange<double> range, double otherwise) {
    const YamlNode* const node = keys.find(key);
    return node ? node->as_double(range) : otherwise;
  };
  const YamlNode* grid = keys.find("grid");
  LayerListBuilder builder({.defaults = defaults,
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
  builder.add_list(*layers, *model.net, flow, names, head == nullptr);
  if (head) builder.add_list(*head, *model.net, flow, names, true);
  builder.set_drop_paths();
  model.net->set_fuse(!fuse || fuse->as_bool());
  note_head(model);
  if (model.net->size() == 0) layers->fail_expected("at least one layer");
  model.output = flow.shape;
  if (flow.shape.rank() == 2 && flow.shape[1] == 1) model.output_kind = OutputKind::sigmoid;
  check_output(section, options, model);
  return model;
}

Tensor probabilities(const Tensor& logits, OutputKind kind) {
  if (kind == OutputKind::softmax) return softmax(logits);
  const Tensor p = sigmoid(logits);
  return concat({affine(p, -1, 1), p}, -1);
}

}  // namespace whisker
