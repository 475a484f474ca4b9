// One function per container; everything else goes through the factory.
#include "layers/builder/layer_list.h"

#include "layers/layers.h"

#include <type_traits>

namespace whisker {
namespace {

constexpr int most_layers = 4096;

// Errors of a node's getters begin with the file; those of a layer's constructor do not.
bool says_place(const Error& error, const YamlNode& node) {
  const auto& source = node.mark().source;
  return source && std::string_view(error.what()).starts_with(*source);
}

struct Item {
  std::string type;
  const YamlNode& settings;
};

Item read_item(const YamlNode& node) {
  static const YamlNode nothing;
  if (node.is_scalar()) {
    const std::string type = canonical_layer_type(node.text());
    if (type.empty()) fail_unknown(node, "layer", layer_type_names());
    return {type, nothing};
  }
  if (!node.is_map() || node.size() != 1) {
    node.fail_expected("a layer: its type, or one `type: settings`",
                       "Start each layer with '- ' and indent its settings below it.");
  }
  const std::string type = canonical_layer_type(node.keys()[0]);
  if (type.empty()) fail_unknown_key(node, 0, "layer", layer_type_names());
  return {type, node[0]};
}

// The output's shape; what does not fit is said with place, layer and input.
void pass_through(const Module& module, const std::string& place, const std::string& name,
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

// Its first axis would count steps, not samples.
void refuse_flatten_of_sequence(const std::string& type, const std::string& place, const Shape& x) {
  if (type != "flatten" || x.rank() != 3) return;
  fail(ErrorKind::usage,
       "{}: flatten keeps the first axis for the samples, and that of a sequence {} counts its "
       "steps. End it with simple_rnn, lstm or gru without return_sequences.",
       place, x);
}

// A flatten's channel count travels through layers that keep the order of features.
void note_flatten(const std::string& type, const Shape& before, Flow& flow) {
  if (type == "flatten") {
    if (before.rank() != 4) return;  // changes nothing
    flow.flattened_channels = before[1] * before[2] > 1 ? before[3] : 0;
  } else if (type == "dense" || type == "embedding" || flow.shape.rank() != 2) {
    flow.flattened_channels = 0;
  }
}

}  // namespace

void LayerListBuilder::add_list(const YamlNode& list, Sequential& target, Flow& flow,
                                LayerNames& names, bool tail) {
  const auto items = list.as_sequence();
  for (size_t i = 0; i < items.size(); ++i) {
    add_item(items[i], {target, flow, names, tail && i + 1 == items.size()});
  }
}

void LayerListBuilder::add_item(const YamlNode& node, const Target& target) {
  if (++layers_ > most_layers) {
    fail(ErrorKind::usage, "{}: more than {} layers", place_of(node), most_layers);
  }
  const auto [type, settings] = read_item(node);
  LayerArguments arguments(node, settings, defaults_of(type), short_setting_of(type));
  if (type == "repeat") {
    add_repeat(arguments, target);
  } else if (type == "sequential") {
    add_sequential(arguments, target);
  } else if (type == "residual") {
    add_residual(arguments, target);
  } else if (type == "concat") {
    add_branches<Concat>(arguments, target);
  } else if (type == "multiply") {
    add_branches<Multiply>(arguments, target);
  } else {
    add_layer(type, node, arguments, target);
  }
}

const YamlNode* LayerListBuilder::defaults_of(const std::string& type) const {
  const YamlNode* defaults = options_.defaults;
  for (size_t i = 0; defaults && i < defaults->size(); ++i) {
    if (canonical_layer_type(defaults->keys()[i]) == type) return &(*defaults)[i];
  }
  return nullptr;
}

void LayerListBuilder::add_layer(const std::string& type, const YamlNode& node,
                                 LayerArguments& arguments, const Target& target) {
  MadeLayer made;
  try {
    made = make_layer(type, arguments,
                      {.flow = target.flow,
                       .classes = options_.classes,
                       .vocabulary = options_.vocabulary,
                       .keras_start = options_.keras_start,
                       .tail = target.tail});
  } catch (const Error& error) {
    if (says_place(error, node)) throw;
    fail(error.kind(), "{}: {}", arguments.place(), error.what());
  }
  if (made.output) model_.output_kind = *made.output;
  if (!made.module) {
    model_.notes.push_back(type + " into the loss");
    arguments.find({"name"});
    arguments.finish();
    return;
  }
  // Nothing is stored under the names of these.
  const bool unnamed = dynamic_cast<ActivationLayer*>(made.module.get()) ||
                       dynamic_cast<MaxPool2D*>(made.module.get());
  const std::string name = target.names.choose(arguments, type, repeat_index_, unnamed);
  arguments.finish();
  const std::string full = target.names.full(name);
  refuse_flatten_of_sequence(type, arguments.place(), target.flow.shape);
  const Shape before = target.flow.shape;
  pass_through(*made.module, arguments.place(), full, target.flow);
  note_flatten(type, before, target.flow);
  if (made.output) model_.notes.push_back(fmt::format("activation of {} into the loss", full));
  if (made.head) model_.head.push_back(full);
  target.layers.add_named(name, std::move(made.module));
}

void LayerListBuilder::add_repeat(LayerArguments& arguments, const Target& target) {
  const int64_t count = arguments.required({"n", "times"}).as_int({.min = 1, .max = 1000});
  const int64_t start = arguments.integer({"start"}, {.min = 0, .max = 1'000'000}, 0);
  const YamlNode& layers = arguments.required({"layers"});
  arguments.finish();
  const int64_t outer = repeat_index_;
  for (int64_t i = 0; i < count; ++i) {
    repeat_index_ = start + i;
    add_list(layers, target.layers, target.flow, target.names, target.tail && i + 1 == count);
  }
  repeat_index_ = outer;
}

template <class Fn>
std::string LayerListBuilder::with_names(LayerArguments& arguments, LayerNames& names, Fn&& fn) {
  if (!arguments.find({"name"})) {
    arguments.finish();
    fn(names);
    return {};
  }
  const std::string name = names.choose(arguments, "", repeat_index_);
  arguments.finish();
  LayerNames inner(names.full(name));
  fn(inner);
  return name;
}

LayerListBuilder::Part LayerListBuilder::build_layers(LayerArguments& arguments, Flow& flow,
                                                      LayerNames& names, bool tail) {
  auto part = std::make_shared<Sequential>();
  const YamlNode& layers = arguments.required({"layers"});
  const std::string name = with_names(arguments, names, [&](LayerNames& inner) {
    part->set_path(inner.full({}));
    add_list(layers, *part, flow, inner, tail);
  });
  return {name, part};
}

LayerListBuilder::Part LayerListBuilder::build_part(const YamlNode& node, Flow& flow,
                                                    LayerNames& names) {
  LayerArguments arguments(node, node, nullptr, "layers");
  return build_layers(arguments, flow, names, false);
}

void LayerListBuilder::add_sequential(LayerArguments& arguments, const Target& target) {
  const auto [name, layers] = build_layers(arguments, target.flow, target.names, target.tail);
  target.layers.add_named(name, layers);
}

void LayerListBuilder::add_residual(LayerArguments& arguments, const Target& target) {
  const YamlNode& body_node = arguments.required({"body", "layers"});
  const YamlNode* projection_node = arguments.find({"projection", "shortcut"});
  const YamlNode* activation = arguments.find({"activation"});
  std::shared_ptr<Residual> residual;
  Flow inner = target.flow, shortcut = target.flow;
  const std::string name = with_names(arguments, target.names, [&](LayerNames& names) {
    const Part body = build_part(body_node, inner, names);
    if (!body.first.empty()) {
      fail(ErrorKind::usage, "{}: a body has no name of its own; name the residual",
           place_of(body_node));
    }
    const Part projection =
        projection_node ? build_part(*projection_node, shortcut, names) : Part();
    residual = std::make_shared<Residual>(
        body.second, projection.second,
        Residual::Options{.activation = activation ? read_activation(*activation)
                                                   : ActivationSpec{Activation::relu},
                          .projection_name = projection.first});
  });
  residual->set_path(target.names.full(name));
  const std::string label = residual->path().empty() ? residual->type() : residual->path();
  pass_through(*residual, arguments.place(), label, target.flow);
  target.flow.flattened_channels = 0;
  target.layers.add_named(name, residual);
}

template <class Container>
void LayerListBuilder::add_branches(LayerArguments& arguments, const Target& target) {
  const YamlNode& nodes = arguments.required({"branches"});
  std::vector<Branches::Branch> branches;
  const std::string name = with_names(arguments, target.names, [&](LayerNames& names) {
    for (const YamlNode& node : nodes.as_sequence()) {
      Flow inner = target.flow;
      auto [branch_name, layers] = build_part(node, inner, names);
      branches.push_back({branch_name, layers});
    }
  });
  constexpr bool multiplies = std::is_same_v<Container, Multiply>;
  if (branches.size() < (multiplies ? 2 : 1)) {
    nodes.fail_expected(multiplies ? "a list with at least two branches; `[]` is the input itself"
                                   : "a list with at least one branch");
  }
  const auto container = std::make_shared<Container>(std::move(branches));
  const std::string full = target.names.full(name);
  pass_through(*container, arguments.place(), full.empty() ? container->type() : full, target.flow);
  target.flow.flattened_channels = 0;
  target.layers.add_named(name, container);
}

}  // namespace whisker
