// What the table of fusion.cpp and the walk over it in fusion_walk.cpp share: a row of the table.
#pragma once

#include "layers/fusion.h"

#include <optional>
#include <span>

namespace whisker {

/// One row of the table. Where forward or plan returns nothing, the next pattern is tried.
struct FusionPattern {
  const char* name;
  /// Decides by kinds and settings of the layers from `at` on.
  std::optional<FusedLayers> (*match)(Fusion::Layers layers, size_t at, const FusionTarget& target);
  /// Nothing where these shapes are not supported, or are faster unfused.
  std::optional<LayerValue> (*forward)(Fusion::Layers layers, const FusedLayers& match,
                                       const LayerValue& x, const Pass& pass);
  /// Likewise, in training. Null: planned as the next pattern plans it, or as the layers
  /// themselves.
  std::optional<int> (*plan)(Fusion::Layers layers, const FusedLayers& match, MemoryPlan& plan,
                             int x);
};

/// The table, or, where nothing is fused, that of the activations which layers have as operators of
/// their own. The first row that matches and runs wins.
std::span<const FusionPattern> fusion_patterns(bool fuse);

}  // namespace whisker
