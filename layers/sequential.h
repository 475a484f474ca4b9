// Layers one after the other.
#pragma once

#include "layers/module.h"

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
  /// Appends `module` under exactly `name`; an empty name adds nothing to the names below.
  void add_named(const std::string& name, std::shared_ptr<Module> module);

  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  /// The first `count` layers only.
  Tensor forward_first(size_t count, const Tensor& x, const Pass& pass);
  std::string type() const override { return "sequential"; }
  Shape output_shape(const Shape& x) const override;
  int add_to(Plan& plan, int x) const override;
  int add_first_to(size_t count, Plan& plan, int x) const;

  size_t size() const { return children().size(); }
  const std::shared_ptr<Module>& layer(size_t index) const { return children()[index].module; }

 private:
  template <class Layer>
  Layer& append(std::shared_ptr<Layer> layer, const std::string& name) {
    add_named(name.empty() ? default_name(layer->type()) : name, layer);
    return *layer;
  }
  std::string default_name(const std::string& type) const;
};

}  // namespace whisker
