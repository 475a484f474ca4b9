// Settings that several layers of a model file have in common: extents, activations, initial values
// and padding. Each is read and checked alike, whatever the layer.
#pragma once

#include "layers/builder/layer_factory.h"

#include <cstdint>
#include <optional>

namespace whisker {

/// Most channels, units or features of a layer.
inline constexpr int64_t most_channels = 1 << 20;

/// `filters`, `units`: a number, the word `classes`, or `channels` (those of the input), alone or
/// with a factor or divisor: `channels * 4`, `channels / 8`.
struct Extent {
  int64_t value = 0;
  bool head = false;  ///< `classes`
};
/// Throws usage for other values, and for `classes` where their number is not known.
Extent read_extent(const YamlNode& node, const LayerContext& context);

/// Filters of a convolution: numbers are multiplied by the model's width and rounded to a multiple
/// of 8, at most a tenth down (as torchvision's _make_divisible).
Extent read_filters(const YamlNode& node, const LayerContext& context);

/// `activation` of a layer: in its operator, or, of the model's last layer, the loss's.
struct OutputActivation {
  ActivationSpec fused = {};
  std::optional<OutputKind> output = {};
};
/// Null: none. Throws usage for unknown names, and for softmax before the model's end.
OutputActivation read_output_activation(const YamlNode* node, const LayerContext& context);

/// Initial kernel: the file's choice, else Keras' or PyTorch's.
InitializerSpec weight_start(LayerArguments& arguments, const LayerContext& context);
/// Initial bias, likewise.
InitializerSpec bias_start(LayerArguments& arguments, const LayerContext& context);

struct Padding {
  Pair amount = 0;
  PaddingMode mode = PaddingMode::number;
};
/// `padding`: same, valid (when not told), or numbers.
Padding read_padding(LayerArguments& arguments);

}  // namespace whisker
