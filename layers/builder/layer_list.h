// The walk over a model file's list of layers: settings to modules, shapes from one to the next,
// and containers.
#pragma once

#include "core/io/yaml.h"
#include "layers/builder/layer_factory.h"
#include "layers/builder/layer_names.h"
#include "layers/builder/model_builder.h"
#include "layers/dropout.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

struct LayerListOptions {
  const YamlNode* defaults = nullptr;   ///< settings per layer type, or null
  const YamlNode* overrides = nullptr;  ///< the same, stronger than what layers say
  bool keras_start = false;             ///< see LayerContext
  int64_t classes = 0;                  ///< see LayerContext
  int64_t vocabulary = 0;               ///< likewise
  double width = 1;                     ///< likewise
  int64_t grid = 0;                     ///< likewise
  double depth = 1;                     ///< multiplies the `n` of repeats, rounded up
  double drop_path = 0;  ///< rate of the last residual that asks for `drop_path: auto`
};

class LayerListBuilder {
 public:
  /// Notes, head and output kind go to `model`.
  LayerListBuilder(const LayerListOptions& options, Model& model)
      : options_(options), model_(model) {}

  /// Appends the layers of `list` to `target`. `tail`: nothing follows in the whole model. Throws
  /// usage, with the place, for what is unknown or does not fit.
  void add_list(const YamlNode& list, Sequential& target, Flow& flow, LayerNames& names, bool tail);
  /// When all lists are added: the rates of stochastic depth, linear from 0 to the largest.
  void set_drop_paths();
  /// Likewise: which of the model's settings no layer reads.
  void note_unused();

 private:
  using Part = std::pair<std::string, std::shared_ptr<Sequential>>;  // name and layers

  // Where new layers go, and what is known there.
  struct Target {
    Sequential& layers;
    Flow& flow;
    LayerNames& names;
    bool tail;
  };

  void add_item(const YamlNode& node, const Target& target);
  void add_layer(const std::string& type, const YamlNode& node, LayerArguments& arguments,
                 const Target& target);
  void add_repeat(LayerArguments& arguments, const Target& target);
  void add_drop_path(const YamlNode& rate, Sequential& body);
  using AddBlock = void (LayerListBuilder::*)(LayerArguments&, const Target&);
  void add_block(AddBlock add, LayerArguments& arguments, const Target& target);
  void add_sequential(LayerArguments& arguments, const Target& target);
  void add_residual(LayerArguments& arguments, const Target& target);
  template <class Container>
  void add_branches(LayerArguments& arguments, const Target& target);

  // Runs fn(names) with the names of a container: its own below its name, else its parent's.
  template <class Fn>
  std::string with_names(LayerArguments& arguments, LayerNames& names, Fn&& fn);
  Part build_layers(LayerArguments& arguments, Flow& flow, LayerNames& names, bool tail);
  // From a list of layers, or {name, layers}: branches, bodies and projections.
  Part build_part(const YamlNode& node, Flow& flow, LayerNames& names);

  LayerListOptions options_;
  Model& model_;
  std::vector<std::shared_ptr<DropPath>> drop_paths_;  // whose rates grow with the depth
  int drop_path_count_ = 0;
  int64_t repeat_index_ = -1;
  int layers_ = 0;
  bool uses_width_ = false, uses_depth_ = false, uses_grid_ = false, uses_drop_path_ = false;
};

}  // namespace whisker
