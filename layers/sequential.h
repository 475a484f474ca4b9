// Layers one after the other. Convolutions and the batch norms between them hand each other what
// spares passes over memory, a batch norm and the max-pooling behind it are one operator, and so
// are small dense layers, where the device has kernels for it: docs/cuda.md.
#pragma once

#include "core/ops.h"
#include "layers/module.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

class BatchNorm;
class Conv2D;
class Dense;
class MaxPool2D;
class Residual;

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
  /// Layers begin to end - 1 only; with sums where the last is a convolution and the next layer a
  /// batch_norm.
  Convolved forward_range(size_t begin, size_t end, const Convolved& x, const Pass& pass);
  /// Off: every layer is an operator of its own.
  void set_fuse(bool fuse) { fuse_ = fuse; }
  bool fuses() const { return fuse_; }
  std::string type() const override { return "sequential"; }
  Shape output_shape(const Shape& x) const override;
  int add_to(Plan& plan, int x) const override;
  int add_first_to(size_t count, Plan& plan, int x) const;

  size_t size() const { return children().size(); }
  const std::shared_ptr<Module>& layer(size_t index) const { return children()[index].module; }

 private:
  /// A layer as what chains are made of; null for any other.
  struct Link {
    Conv2D* convolution = nullptr;
    BatchNorm* norm = nullptr;
    Residual* block = nullptr;
    Dense* dense = nullptr;
    MaxPool2D* pool = nullptr;
  };
  BatchNorm* norm_at(size_t index) const {
    return index < links_.size() ? links_[index].norm : nullptr;
  }
  /// The convolution behind layer `index` when that is a batch_norm which it may compute.
  Conv2D* partner_of(size_t index, size_t end, const Convolved& x, const Pass& pass) const;
  /// The max-pooling behind layer `index` when that is a batch_norm that may be one operator with
  /// it; null when it is not, or one of them is not below `end`.
  MaxPool2D* pool_behind_norm(size_t index, size_t end) const;
  /// The same where training on the plan's device joins the two over value `x`.
  MaxPool2D* planned_pool(size_t index, size_t end, const Plan& plan, int x) const;
  /// The dense layers from `index` on that are one operator on x: fewer than two where they are
  /// not.
  std::vector<LinearOperands> dense_chain(size_t index, size_t end, const Tensor& x) const;

  template <class Layer>
  Layer& append(std::shared_ptr<Layer> layer, const std::string& name) {
    add_named(name.empty() ? default_name(layer->type()) : name, layer);
    return *layer;
  }
  std::string default_name(const std::string& type) const;

  std::vector<Link> links_;  // beside children()
  bool fuse_ = true;
};

}  // namespace whisker
