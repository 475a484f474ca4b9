// Preprocessing within an ONNX graph: from pixels to the network's input.
#pragma once

#include "data/transforms/preprocess.h"
#include "train/onnx/graph.h"

#include <string>

namespace whisker {

/// The operator set whose Resize can widen its filter (`antialias`).
inline constexpr int64_t onnx_preprocess_opset = 18;

/// Nodes that make the network's input (N,C,H,W) of `pixels`, u8 (N,height,width,3) in RGB:
/// resized, cropped or with bars, normalised. Pixels differ from Pillow's by at most one of 255
/// levels.
std::string add_onnx_preprocess(OnnxGraph& graph, const Preprocess& preprocess,
                                const std::string& pixels);

}  // namespace whisker
