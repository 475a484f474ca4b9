// Layers as ONNX nodes, one function per type of layer.
#pragma once

#include "core/parameters/parameters.h"
#include "layers/module.h"
#include "train/onnx/graph.h"

#include <functional>
#include <string>
#include <vector>

namespace whisker {

/// A value of the graph. `shape` is Whisker's, of one example; in the graph images (N,H,W,C) are
/// (N,C,H,W), as PyTorch has them, so that weights stand in the order of files.
struct OnnxValue {
  std::string name;
  Shape shape;
};

/// What the functions of layers need.
struct OnnxContext {
  OnnxGraph& graph;
  const ParameterArena& arena;
  /// Name of the input of sequence lengths, i64 (N), made at its first use; null: all are equally
  /// long.
  std::function<std::string()> lengths = {};
};

/// Adds the nodes of `layer` behind `x`; returns its result. Throws usage, naming the layer, for
/// what ONNX or this exporter lacks.
OnnxValue add_onnx_layer(const OnnxContext& context, const Module& layer, const OnnxValue& x);
/// Types of layers that add_onnx_layer() knows.
std::vector<std::string> onnx_layer_types();

}  // namespace whisker
