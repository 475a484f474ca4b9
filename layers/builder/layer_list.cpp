// One function per container; everything else goes through the factory.
#include "layers/builder/layer_list.h"

#include "layers/layers.h"

#include <cmath>
#include <map>
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

// A type's settings among those of several types, which may be null.
const YamlNode* settings_of(const std::string& type, const YamlNode* all) {
  for (size_t i = 0; all && i < all->size(); ++i) {
    if (canonical_layer_type(all->keys()[i]) == type) return &(*all)[i];
  }
  return nullptr;
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
  LayerArguments arguments(node, settings, settings_of(type, options_.defaults),
                           short_setting_of(type), settings_of(type, options_.overrides));
  if (type == "repeat") {
    add_repeat(arguments, target);
  } else if (type == "sequential") {
    add_block(&LayerListBuilder::add_sequential, arguments, target);
  } else if (type == "residual") {
    add_block(&LayerListBuilder::add_residual, arguments, target);
  } else if (type == "concat") {
    add_block(&LayerListBuilder::add_branches<Concat>, arguments, target);
  } else if (type == "multiply") {
    add_block(&LayerListBuilder::add_branches<Multiply>, arguments, target);
  } else {
    add_layer(type, node, arguments, target);
  }
}

void LayerListBuilder::add_block(AddBlock add, LayerArguments& arguments, const Target& target) {
  const bool recompute = arguments.boolean({"recompute"}, false);
  (this->*add)(arguments, target);
  target.layers.children().back().module->set_recompute(recompute);
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
                       .tail = target.tail,
                       .width = options_.width,
                       .grid = options_.grid});
  } catch (const Error& error) {
    if (says_place(error, node)) throw;
    fail(error.kind(), "{}: {}", arguments.place(), error.what());
  }
  if (made.output) model_.named_output = model_.output_kind = *made.output;
  uses_width_ = uses_width_ || type == "conv2d";
  uses_grid_ = uses_grid_ || type == "position_embedding";
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
  if (!made.unused.empty()) model_.unused.push_back(full + ": " + made.unused);
  const Shape before = target.flow.shape;
  pass_through(*made.module, arguments.place(), full, target.flow);
  note_flatten(type, before, target.flow);
  if (type == "class_token") target.flow.patches = before;
  if (made.output) model_.notes.push_back(fmt::format("activation of {} into the loss", full));
  if (made.head) model_.head.push_back(full);
  model_.places.emplace(full, arguments.place());
  target.layers.add_named(name, std::move(made.module));
}

namespace {

using Words = std::map<std::string, std::string>;

// The text of each `{word}`.
Words read_words(const YamlNode* node) {
  Words words;
  if (!node) return words;
  node->as_map();
  for (size_t i = 0; i < node->size(); ++i) words[node->keys()[i]] = (*node)[i].as_string();
  return words;
}

}  // namespace

void LayerListBuilder::add_repeat(LayerArguments& arguments, const Target& target) {
  const YamlNode* const each = arguments.find({"each"});
  const YamlNode* const times = arguments.find({"n", "times"});
  if (!each == !times) {
    fail(ErrorKind::usage, "{}: expected `n`, or `each` with a list of words", arguments.place());
  }
  const Words first = read_words(arguments.find({"first"})),
              then = read_words(arguments.find({"then"}));
  const int64_t start = arguments.integer({"start"}, {.min = 0, .max = 1'000'000}, 0);
  const YamlNode& layers = arguments.required({"layers"});
  arguments.finish();
  int64_t count = 0;
  if (each) {
    count = static_cast<int64_t>(each->as_sequence().size());
  } else {
    const auto n = static_cast<double>(times->as_int({.min = 0, .max = 1000}));
    count = static_cast<int64_t>(std::ceil(n * options_.depth));
    uses_depth_ = true;
  }
  const int64_t outer = repeat_index_;
  for (int64_t i = 0; i < count; ++i) {
    repeat_index_ = start + i;
    Words words = i == 0 ? first : then;
    if (each) words.merge(read_words(&(*each)[static_cast<size_t>(i)]));
    const bool tail = target.tail && i + 1 == count;
    if (words.empty()) {
      add_list(layers, target.layers, target.flow, target.names, tail);
    } else {
      add_list(layers.with_words(words), target.layers, target.flow, target.names, tail);
    }
  }
  repeat_index_ = outer;
}

void LayerListBuilder::add_drop_path(const YamlNode& rate, Sequential& body) {
  const bool grows = rate.text() == "auto";
  uses_drop_path_ = uses_drop_path_ || grows;
  const double fixed = grows ? options_.drop_path : rate.as_double({.min = 0, .max = 0.999});
  if (fixed == 0) return;  // so that the addition can be fused
  const auto layer = std::make_shared<DropPath>(fixed);
  // Numbered through the model: residuals without a name share a path, and masks follow the name.
  body.add_named(fmt::format("drop_path_{}", drop_path_count_++), layer);
  if (grows) drop_paths_.push_back(layer);
}

void LayerListBuilder::set_drop_paths() {
  for (size_t i = 0; drop_paths_.size() > 1 && i < drop_paths_.size(); ++i) {
    drop_paths_[i]->set_rate(options_.drop_path * static_cast<double>(i) /
                             static_cast<double>(drop_paths_.size() - 1));
  }
}

void LayerListBuilder::note_unused() {
  const auto note = [&](bool is_set, bool is_used, std::string_view key, std::string_view needs) {
    if (!is_set || is_used) return;
    model_.unused.push_back(fmt::format("model.{} has no effect: the model has no {}", key, needs));
  };
  note(options_.width != 1, uses_width_, "width", "conv2d");
  note(options_.depth != 1, uses_depth_, "depth", "`repeat: {n: ...}`");
  note(options_.grid != 0, uses_grid_, "grid", "position_embedding");
  note(options_.drop_path != 0, uses_drop_path_, "drop_path", "residual with `drop_path: auto`");
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
  model_.places.emplace(names.full(name), arguments.place());
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
  const YamlNode* drop_path = arguments.find({"drop_path"});
  const YamlNode* add = arguments.find({"add"});
  if (add && add->text() != "always" && add->text() != "same_shape") {
    add->fail_expected("always or same_shape");
  }
  const bool if_alike = add && add->text() == "same_shape";
  std::shared_ptr<Residual> residual;
  std::shared_ptr<Sequential> alone;  // the body, where nothing is added
  Flow inner = target.flow, shortcut = target.flow;
  const std::string name = with_names(arguments, target.names, [&](LayerNames& names) {
    const Part body = build_part(body_node, inner, names);
    if (!body.first.empty()) {
      fail(ErrorKind::usage, "{}: a body has no name of its own; name the residual",
           place_of(body_node));
    }
    if (if_alike && !projection_node && !(inner.shape == target.flow.shape)) {
      alone = body.second;
      if (activation && read_activation(*activation).kind != Activation::none) {
        alone->add_named("activation",
                         std::make_shared<ActivationLayer>(read_activation(*activation)));
      }
      return;
    }
    if (drop_path) add_drop_path(*drop_path, *body.second);
    const Part projection =
        projection_node ? build_part(*projection_node, shortcut, names) : Part();
    residual = std::make_shared<Residual>(
        body.second, projection.second,
        Residual::Options{.activation = activation ? read_activation(*activation)
                                                   : ActivationSpec{Activation::relu},
                          .projection_name = projection.first});
  });
  if (alone) {
    alone->set_path(target.names.full(name));
    target.flow.shape = inner.shape;
    target.layers.add_named(name, alone);
    return;
  }
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
