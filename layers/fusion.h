// Which layers run as one operator. One ordered table of patterns decides it (fusion.cpp); a list
// of layers is matched once for each kind of device and dtype. docs/internals/fusion.md has the
// table.
#pragma once

#include "layers/module.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

class BatchNorm;
class MemoryPlan;
class Sequential;
struct FusionPattern;

/// What patterns depend on besides the layers.
struct FusionTarget {
  std::optional<DeviceKind> device = {};  ///< nothing: only patterns of every device
  DType dtype = DType::f32;
  bool fuse = true;  ///< false: nothing is fused, not even a layer's own activation
  bool fixed_weights = false;  ///< rows for weights that never change apply, too
  bool operator==(const FusionTarget&) const = default;
};

/// Layers `first` to `first + count - 1` of a list, which one pattern covers.
struct FusedLayers {
  const FusionPattern* pattern = nullptr;
  size_t first = 0, count = 1;
  /// Fused only where these normalise with the batch's own statistics; null: there is none.
  std::array<const BatchNorm*, 2> in_training = {};
  /// A copy of the first layer, or of the last one that computes in a residual's body, with the
  /// epilogue in its options; it shares that layer's parameters.
  std::shared_ptr<Module> fused = {};
  const BatchNorm* norm = nullptr;  ///< goes into the weights of `fused` when that first runs
  size_t body_layers = 0;           ///< of a residual's body, that run before `fused`
  /// What is fused, for people: "relu into conv2d".
  std::vector<std::string> notes = {};
};

/// The result of walking the table over one list of layers.
class Fusion {
 public:
  using Layers = std::span<const Module::Child>;

  Fusion(Layers layers, const FusionTarget& target);

  const FusionTarget& target() const { return target_; }
  /// Runs layers `begin` to `end - 1`.
  LayerValue forward(size_t begin, size_t end, LayerValue x, const Pass& pass) const;
  /// Adds the operators of layers 0 to `end - 1` to a plan of training; returns the result's value.
  int add_to(MemoryPlan& plan, size_t end, int x) const;

 private:
  /// Runs what begins at layer `at`, and ends before `end`; returns how many layers that were.
  size_t forward_at(size_t at, size_t end, LayerValue& x, const Pass& pass) const;
  Tensor recompute_at(size_t at, const Tensor& x, const Pass& pass) const;
  size_t add_at(MemoryPlan& plan, size_t at, size_t end, int& x) const;

  Layers layers_;
  FusionTarget target_;
  std::vector<std::vector<FusedLayers>> matches_;  // by first layer, in the table's order
};

}  // namespace whisker
