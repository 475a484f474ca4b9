// What is told under several names stands with all of them; defaults are Keras' or PyTorch's.
#include "layers/builder/shared_settings.h"

namespace whisker {

Extent read_extent(const YamlNode& node, const LayerContext& context) {
  if (node.text() != "classes") return {.value = node.as_int({.min = 1, .max = most_channels})};
  if (context.classes < 1) {
    fail(ErrorKind::usage, "{}: the number of classes is not known here; give a number",
         place_of(node));
  }
  return {.value = context.classes, .head = true};
}

// At the model's end sigmoid and softmax belong to the loss.
OutputActivation read_output_activation(const YamlNode* node, const LayerContext& context) {
  if (!node) return {};
  const bool is_softmax = node->text() == "softmax";
  if (context.tail && is_softmax) return {.output = OutputKind::softmax};
  if (context.tail && node->text() == "sigmoid") return {.output = OutputKind::sigmoid};
  if (is_softmax) {
    fail(ErrorKind::usage,
         "{}: softmax as an activation ends a model; elsewhere use a softmax layer",
         place_of(*node));
  }
  return {.fused = read_activation(*node)};
}

InitializerSpec weight_start(LayerArguments& arguments, const LayerContext& context) {
  const YamlNode* node = arguments.find({"kernel_initializer", "weight_initializer"});
  if (node) return read_initializer(*node);
  return {.kind = context.keras_start ? InitializerKind::glorot_uniform
                                      : InitializerKind::torch_default};
}

InitializerSpec bias_start(LayerArguments& arguments, const LayerContext& context) {
  const YamlNode* node = arguments.find({"bias_initializer"});
  if (node) return read_initializer(*node);
  return context.keras_start ? InitializerSpec::zeros() : InitializerSpec{};
}

Padding read_padding(LayerArguments& arguments) {
  const YamlNode* node = arguments.find({"padding"});
  if (node && node->text() == "same") return {.mode = PaddingMode::same};
  if (!node || node->text() == "valid") return {.mode = PaddingMode::valid};
  return {.amount = *arguments.pair({"padding"}, 0)};
}

}  // namespace whisker
