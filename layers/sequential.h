// Layers one after the other, several of them as one operator where layers/fusion.h says so.
#pragma once

#include "layers/fusion.h"
#include "layers/module.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>

namespace whisker {

class Sequential final : public Module {
 public:
  /// Appends a layer made from its options: add<Conv2D>({.in_channels = 3, .filters = 32}). Without
  /// a name it gets Keras': conv2d, conv2d_1, ...
  template <class Layer>
  Layer& add(const typename Layer::Options& options, const std::string& name = {}) {
    return append(std::make_shared<Layer>(options), name);
  }
  /// Appends a layer made from the constructor's arguments: make<Dropout>(0.5).
  template <class Layer, class... Args>
  Layer& make(Args&&... args) {
    return append(std::make_shared<Layer>(std::forward<Args>(args)...), {});
  }
  /// Appends `module` under exactly `name`; an empty name adds nothing to the names below. Append
  /// before the first forward pass of any list that contains this one.
  void add_named(const std::string& name, std::shared_ptr<Module> module);

  /// One thread at a time may run a network.
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  /// Layers begin to end - 1 only.
  LayerValue forward_range(size_t begin, size_t end, const LayerValue& x, const Pass& pass);
  /// Off: every layer, those of containers already in here too, is an operator of its own.
  void set_fuse(bool fuse);
  bool fuses() const { return fuse_; }
  /// No parameter or statistic changes from now on, and no training pass follows: batch norms
  /// become part of the layers before them, see layers/fusion.h.
  void fix_weights();
  std::string type() const override { return "sequential"; }
  Shape output_shape(const Shape& x) const override;
  int add_to(MemoryPlan& plan, int x) const override;
  int add_first_to(size_t count, MemoryPlan& plan, int x) const;

  size_t size() const { return children().size(); }
  const std::shared_ptr<Module>& layer(size_t index) const { return children()[index].module; }

 private:
  template <class Layer>
  Layer& append(std::shared_ptr<Layer> layer, const std::string& name) {
    add_named(name.empty() ? default_name(layer->type()) : name, layer);
    return *layer;
  }
  std::string default_name(const std::string& type) const;

  bool fuse_ = true;
  bool fixed_weights_ = false;
  std::deque<Fusion> fusions_;  // those asked for so far; backward may run them again
};

}  // namespace whisker
