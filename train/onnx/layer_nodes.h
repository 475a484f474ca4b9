// What the files of layers (layers.cpp, pool_layers.cpp, token_layers.cpp) share: parameters as
// constants of the graph, nodes that several layers have, and the layers with a file of their own.
#pragma once

#include "core/ops/ops.h"
#include "core/parameters/parameters.h"
#include "layers/module.h"
#include "train/onnx/layers.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace whisker::onnx_layers {

using Floats = std::vector<float>;
using Extents64 = std::vector<int64_t>;

/// Throws usage: the layer cannot be exported, and why.
[[noreturn]] void refuse(const Module& layer, std::string_view why);

/// The layer's own parameter of that name; null when it has none.
const Parameter* find_parameter(const Module& layer, std::string_view name);
/// find_parameter(), but refuses a layer without it.
const Parameter& parameter_of(const Module& layer, std::string_view name);
/// The parameter's values in the order of files.
Floats values_of(const OnnxContext& context, const Parameter& parameter);
/// Adds the parameter as a constant; returns its name.
std::string add_parameter(const OnnxContext& context, const Parameter& parameter);

std::string transpose(const OnnxContext& context, const std::string& x, Extents64 axes);
std::string to_channels_last(const OnnxContext& context, const std::string& x);
std::string to_channels_first(const OnnxContext& context, const std::string& x);
/// f(x), by the name that activations have in model files. Refuses one without an ONNX form.
std::string add_activation(const OnnxContext& context, const Module& layer, ActivationSpec f,
                           const std::string& x);
/// The value `name` with the shape that `layer` makes of `x`.
OnnxValue result_of(const Module& layer, const OnnxValue& x, std::string name);
/// Elements behind the last that windows of `reach` elements need, from `begin` before the first.
int64_t end_padding(int64_t extent, int64_t out, int64_t stride, int64_t reach, int64_t begin);

OnnxValue add_max_pool2d(const OnnxContext& context, const Module& layer, const OnnxValue& x);
OnnxValue add_avg_pool2d(const OnnxContext& context, const Module& layer, const OnnxValue& x);
OnnxValue add_adaptive_avg_pool2d(const OnnxContext& context, const Module& layer,
                                  const OnnxValue& x);
OnnxValue add_blur_pool2d(const OnnxContext& context, const Module& layer, const OnnxValue& x);
OnnxValue add_global_avg_pool2d(const OnnxContext& context, const Module& layer,
                                const OnnxValue& x);
OnnxValue add_global_max_pool2d(const OnnxContext& context, const Module& layer,
                                const OnnxValue& x);

OnnxValue add_layer_scale(const OnnxContext& context, const Module& layer, const OnnxValue& x);
OnnxValue add_class_token(const OnnxContext& context, const Module& layer, const OnnxValue& x);
OnnxValue add_position_embedding(const OnnxContext& context, const Module& layer,
                                 const OnnxValue& x);
OnnxValue add_first_token(const OnnxContext& context, const Module& layer, const OnnxValue& x);
OnnxValue add_attention(const OnnxContext& context, const Module& layer, const OnnxValue& x);

}  // namespace whisker::onnx_layers
