// The walk over the list of layers: names, shapes, containers, and joining of activations.
#include "layers/model_builder.h"

#include "core/io/text.h"
#include "layers/layers.h"
#include "layers/presets.h"

#include <algorithm>
#include <map>
#include <set>

namespace whisker {
namespace {

constexpr int most_layers = 4096;

// Errors of a node's getters begin with the file; those of a layer's constructor do not.
bool says_place(const Error& error, const YamlNode& node) {
  const auto& source = node.mark().source;
  return source && std::string_view(error.what()).starts_with(*source);
}

/// Names given under one prefix. Containers without a name share their parent's.
struct Names {
  std::string prefix = {};
  std::map<std::string, int> numbers = {};
  std::set<std::string> taken = {};
};

class Builder {
 public:
  Builder(const YamlNode* defaults, bool keras_start, bool fuse, int64_t classes, Model& model)
      : defaults_(defaults),
        keras_start_(keras_start),
        fuse_(fuse),
        classes_(classes),
        model_(model) {}

  /// Appends the layers of `list` to `target`. `tail`: nothing follows in the whole model.
  void add_list(const YamlNode& list, Sequential& target, Flow& flow, Names& names, bool tail) {
    const auto items = list.as_sequence();
    for (size_t i = 0; i < items.size(); ++i) {
      add_item(items[i], target, flow, names, tail && i + 1 == items.size());
    }
  }

 private:
  struct Item {
    const YamlNode& node;   // the list's entry
    const YamlNode& value;  // what stands under the type
    std::string type;
  };

  void add_item(const YamlNode& node, Sequential& target, Flow& flow, Names& names, bool tail) {
    if (++layers_ > most_layers) {
      fail(ErrorKind::usage, "{}: more than {} layers", place_of(node), most_layers);
    }
    const Item item = read_item(node);
    LayerArguments arguments(node, item.value, defaults_of(item.type), short_setting_of(item.type));
    if (item.type == "repeat") {
      add_repeat(arguments, target, flow, names, tail);
    } else if (item.type == "sequential") {
      add_sequential(arguments, target, flow, names, tail);
    } else if (item.type == "residual") {
      add_residual(arguments, target, flow, names);
    } else if (item.type == "concat") {
      add_concat(arguments, target, flow, names);
    } else {
      add_layer(item, arguments, target, flow, names, tail);
    }
  }

  static Item read_item(const YamlNode& node) {
    static const YamlNode nothing;
    if (node.is_scalar()) {
      const std::string type = canonical_layer_type(node.text());
      if (type.empty()) fail_unknown(node, "layer", layer_type_names());
      return {node, nothing, type};
    }
    if (!node.is_map() || node.size() != 1) {
      node.fail_expected("a layer: its type, or one `type: settings`",
                         "Start each layer with '- ' and indent its settings below it.");
    }
    const std::string type = canonical_layer_type(node.keys()[0]);
    if (type.empty()) {
      const std::string nearest = nearest_name(node.keys()[0], layer_type_names());
      node.fail_at_key(
          0, nearest.empty()
                 ? fmt::format("unknown layer; known are {}", fmt::join(layer_type_names(), ", "))
                 : fmt::format("unknown layer; did you mean '{}'?", nearest));
    }
    return {node, node[0], type};
  }

  const YamlNode* defaults_of(const std::string& type) const {
    if (!defaults_) return nullptr;
    for (size_t i = 0; i < defaults_->size(); ++i) {
      if (canonical_layer_type(defaults_->keys()[i]) == type) return &(*defaults_)[i];
    }
    return nullptr;
  }

  // The given name with {i} filled in, or Keras' default.
  std::string choose_name(LayerArguments& arguments, const std::string& type, Names& names) {
    std::string name = given_name(arguments);
    if (name.empty()) {
      do {
        const int number = names.numbers[type]++;
        name = number == 0 ? type : fmt::format("{}_{}", type, number);
      } while (names.taken.contains(name));
    }
    if (!names.taken.insert(name).second) {
      fail(ErrorKind::usage, "{}: the name '{}' is taken by a layer before; choose another",
           arguments.place(), name);
    }
    return name;
  }

  std::string given_name(LayerArguments& arguments) const {
    const YamlNode* node = arguments.find({"name"});
    if (!node) return {};
    std::string name = node->as_string();
    for (size_t at = name.find("{i}"); at != std::string::npos; at = name.find("{i}")) {
      if (repeat_index_ < 0) {
        fail(ErrorKind::usage, "{}: {{i}} counts inside a repeat only", place_of(*node));
      }
      name.replace(at, 3, std::to_string(repeat_index_));
    }
    if (name.empty() || name.starts_with('.') || name.ends_with('.') ||
        name.find("..") != std::string::npos || name.size() > 200) {
      fail(ErrorKind::usage, "{}: expected a name of words joined by dots, got '{}'",
           place_of(*node), name);
    }
    return name;
  }

  // The output's shape; what does not fit is said with place, layer and input.
  static void pass_through(const Module& module, const std::string& place, const std::string& name,
                           Flow& flow) {
    try {
      flow.shape = module.output_shape(flow.shape);
    } catch (const Error& error) {
      fail(error.kind(), "{}: layer '{}' on {}: {}", place, name, flow.shape, error.what());
    }
    if (flow.shape.count() == 0) {
      fail(ErrorKind::usage, "{}: layer '{}' leaves nothing: {}", place, name, flow.shape);
    }
  }

  void add_layer(const Item& item, LayerArguments& arguments, Sequential& target, Flow& flow,
                 Names& names, bool tail) {
    const LayerContext context{
        .flow = flow, .classes = classes_, .keras_start = keras_start_, .tail = tail};
    MadeLayer made;
    try {
      made = make_layer(item.type, arguments, context);
    } catch (const Error& error) {
      if (says_place(error, item.node)) throw;
      fail(error.kind(), "{}: {}", arguments.place(), error.what());
    }
    if (made.output) model_.output_kind = *made.output;
    if (!made.module) {
      arguments.find({"name"});
      arguments.finish();
      model_.notes.push_back(item.type + " into the loss");
      return;
    }
    if (fuse_ && join_activation(*made.module, target)) {
      arguments.find({"name"});
      arguments.finish();
      return;
    }
    const std::string name = choose_name(arguments, item.type, names);
    arguments.finish();
    const std::string full = join_path(names.prefix, name);
    const Shape before = flow.shape;
    pass_through(*made.module, arguments.place(), full, flow);
    note_flatten(item.type, before, flow);
    if (made.output) model_.notes.push_back(fmt::format("activation of {} into the loss", full));
    if (made.head) model_.head.push_back(full);
    target.add_named(name, std::move(made.module));
  }

  // A flatten's channel count travels through layers that keep the order of features.
  static void note_flatten(const std::string& type, const Shape& before, Flow& flow) {
    if (type == "flatten") {
      const bool picture = before.rank() == 4 && before[1] * before[2] > 1;
      flow.flattened_channels = picture ? before[3] : 0;
    } else if (type == "dense" || type == "embedding" || flow.shape.rank() != 2) {
      flow.flattened_channels = 0;
    }
  }

  // An activation straight after a layer that can compute it becomes part of that layer.
  bool join_activation(const Module& module, Sequential& target) {
    const auto* activation = dynamic_cast<const ActivationLayer*>(&module);
    if (!activation || target.size() == 0) return false;
    const ActivationSpec spec = activation->activation();
    Module& last = *target.layer(target.size() - 1);
    const auto join = [&](auto* layer, bool possible) {
      if (!layer || !possible || layer->options().activation.kind != Activation::none) return false;
      layer->set_activation(spec);
      model_.notes.push_back(fmt::format("{} into {}", name_of(spec.kind), last.path()));
      return true;
    };
    const bool derivable = derivable_from_output(spec.kind);
    return join(dynamic_cast<Conv2D*>(&last), derivable) ||
           join(dynamic_cast<Dense*>(&last), derivable) ||
           join(dynamic_cast<BatchNorm*>(&last), BatchNorm::fuses(spec));
  }

  void add_repeat(LayerArguments& arguments, Sequential& target, Flow& flow, Names& names,
                  bool tail) {
    const int64_t count = arguments.required({"n", "times"}).as_int({.min = 1, .max = 1000});
    const int64_t start = arguments.integer({"start"}, {.min = 0, .max = 1'000'000}, 0);
    const YamlNode& layers = arguments.required({"layers"});
    arguments.finish();
    const int64_t outer = repeat_index_;
    for (int64_t i = 0; i < count; ++i) {
      repeat_index_ = start + i;
      add_list(layers, target, flow, names, tail && i + 1 == count);
    }
    repeat_index_ = outer;
  }

  // Runs fn(names) with the scope of a container: its own when it has a name, else its parent's.
  template <class Fn>
  std::string with_scope(LayerArguments& arguments, Names& names, Fn&& fn) {
    const bool named = arguments.find({"name"}) != nullptr;
    if (!named) {
      fn(names);
      return {};
    }
    const std::string name = choose_name(arguments, "", names);
    Names inner{.prefix = join_path(names.prefix, name)};
    fn(inner);
    return name;
  }

  // A list of layers, or {name, layers}: branches, bodies and projections.
  std::pair<std::string, std::shared_ptr<Sequential>> build_part(const YamlNode& node, Flow& flow,
                                                                 Names& names, bool tail = false) {
    LayerArguments arguments(node, node, nullptr, "layers");
    auto part = std::make_shared<Sequential>();
    const YamlNode& layers = arguments.required({"layers"});
    const std::string name = with_scope(arguments, names, [&](Names& scope) {
      part->set_path(scope.prefix);
      arguments.finish();
      add_list(layers, *part, flow, scope, tail);
    });
    return {name, part};
  }

  void add_sequential(LayerArguments& arguments, Sequential& target, Flow& flow, Names& names,
                      bool tail) {
    const YamlNode& layers = arguments.required({"layers"});
    auto part = std::make_shared<Sequential>();
    const std::string name = with_scope(arguments, names, [&](Names& scope) {
      part->set_path(scope.prefix);
      arguments.finish();
      add_list(layers, *part, flow, scope, tail);
    });
    target.add_named(name, part);
  }

  void add_residual(LayerArguments& arguments, Sequential& target, Flow& flow, Names& names) {
    const YamlNode& body_node = arguments.required({"body", "layers"});
    const YamlNode* projection_node = arguments.find({"projection", "shortcut"});
    const YamlNode* activation = arguments.find({"activation"});
    std::shared_ptr<Residual> residual;
    Flow inner = flow, shortcut = flow;
    const std::string name = with_scope(arguments, names, [&](Names& scope) {
      arguments.finish();
      auto body = build_part(body_node, inner, scope).second;
      std::pair<std::string, std::shared_ptr<Sequential>> projection;
      if (projection_node) projection = build_part(*projection_node, shortcut, scope);
      residual = std::make_shared<Residual>(
          body, projection.second,
          Residual::Options{.activation = activation ? read_activation(*activation)
                                                     : ActivationSpec{Activation::relu},
                            .fuse = fuse_,
                            .projection_name = projection.first});
    });
    residual->set_path(join_path(names.prefix, name));
    const std::string label = residual->path().empty() ? residual->type() : residual->path();
    pass_through(*residual, arguments.place(), label, flow);
    flow.flattened_channels = 0;
    if (residual->fused()) model_.notes.push_back(fmt::format("add of {} into batch_norm", label));
    target.add_named(name, residual);
  }

  void add_concat(LayerArguments& arguments, Sequential& target, Flow& flow, Names& names) {
    const auto branch_nodes = arguments.required({"branches"}).as_sequence();
    std::shared_ptr<Concat> concat;
    const std::string name = with_scope(arguments, names, [&](Names& scope) {
      arguments.finish();
      std::vector<Concat::Branch> branches;
      for (const YamlNode& node : branch_nodes) {
        Flow inner = flow;
        auto [branch_name, layers] = build_part(node, inner, scope);
        branches.push_back({branch_name, layers});
      }
      if (branches.empty()) fail(ErrorKind::usage, "{}: no branches", arguments.place());
      concat = std::make_shared<Concat>(std::move(branches));
    });
    const std::string full = join_path(names.prefix, name);
    pass_through(*concat, arguments.place(), full.empty() ? concat->type() : full, flow);
    flow.flattened_channels = 0;
    target.add_named(name, concat);
  }

  const YamlNode* defaults_;
  bool keras_start_;
  bool fuse_;
  int64_t classes_;
  Model& model_;
  int64_t repeat_index_ = -1;
  int layers_ = 0;
};

void check_defaults(const YamlNode* defaults) {
  if (!defaults) return;
  defaults->as_map();
  for (size_t i = 0; i < defaults->size(); ++i) {
    if (!canonical_layer_type(defaults->keys()[i]).empty()) {
      (*defaults)[i].as_map();
      continue;
    }
    const std::string nearest = nearest_name(defaults->keys()[i], layer_type_names());
    defaults->fail_at_key(i, nearest.empty()
                                 ? std::string("unknown layer")
                                 : fmt::format("unknown layer; did you mean '{}'?", nearest));
  }
}

// The section's own keys and, behind them, its preset's.
class Section {
 public:
  Section(const YamlNode& node, const BuildOptions& options) : node_(node) {
    const YamlNode* name = node.is_scalar() ? &node : node.find("preset");
    if (name) {
      const Preset* preset = find_preset(name->as_string());
      if (!preset) fail_unknown(*name, "preset", preset_names());
      name_ = preset->name;
      preset_ = YamlNode::parse(preset->text, fmt::format("preset {}", preset->name));
    }
    if (node.is_scalar()) return;
    node.as_map();
    std::vector<std::string> known = {"preset",   "layers",      "head",
                                      "defaults", "initializer", "fuse"};
    known.insert(known.end(), options.other_keys.begin(), options.other_keys.end());
    for (size_t i = 0; i < node.keys().size(); ++i) {
      const std::string& key = node.keys()[i];
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string nearest = nearest_name(key, known);
      node.fail_at_key(i, nearest.empty()
                              ? fmt::format("unknown key; known are {}", fmt::join(known, ", "))
                              : fmt::format("unknown key; did you mean '{}'?", nearest));
    }
  }

  const YamlNode* find(std::string_view key) const {
    const YamlNode* own = node_.find(key);
    return own ? own : preset_.find(key);
  }
  const std::string& preset_name() const { return name_; }

 private:
  const YamlNode& node_;
  YamlNode preset_;
  std::string name_;
};

bool read_keras_start(const YamlNode* node) {
  if (!node || node->text() == "pytorch") return false;
  if (node->text() != "keras") node->fail_expected("pytorch or keras");
  return true;
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
  const bool two_in_one = y.rank() == 2 && y[1] == 1 && options.classes == 2 &&
                          model.output_kind == OutputKind::sigmoid;
  if (two_in_one) return;
  if (y.rank() == 2 && y[1] == options.classes && model.output_kind == OutputKind::softmax) return;
  fail(ErrorKind::usage,
       "{}: for {} classes expected ({},{}) at the end{}, got {}{}. Use `units: classes` in the "
       "last dense layer.",
       place_of(section), options.classes, options.input[0], options.classes,
       options.classes == 2 ? fmt::format(", or a sigmoid over ({},1)", options.input[0])
                            : std::string(),
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

  Model model{
      .net = std::make_shared<Sequential>(), .input = options.input, .preset = keys.preset_name()};
  Builder builder(defaults, read_keras_start(keys.find("initializer")), !fuse || fuse->as_bool(),
                  options.classes, model);
  Flow flow{.shape = options.input};
  Names names;
  builder.add_list(*layers, *model.net, flow, names, head == nullptr);
  if (head) builder.add_list(*head, *model.net, flow, names, true);
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
