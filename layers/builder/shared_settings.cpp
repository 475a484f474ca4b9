// What is told under several names stands with all of them; defaults are Keras' or PyTorch's.
#include "layers/builder/shared_settings.h"

#include <algorithm>

namespace whisker {
namespace {

// `channels`, `channels * 4` or `channels / 4`; nothing for other text.
std::optional<int64_t> of_channels(const YamlNode& node, int64_t channels) {
  constexpr std::string_view word = "channels";
  const std::string& text = node.text();
  if (!text.starts_with(word)) return std::nullopt;
  std::string rest = text.substr(word.size());
  std::erase(rest, ' ');
  if (rest.empty()) return channels;
  const std::string_view digits = std::string_view(rest).substr(1);
  const bool known = rest[0] == '*' || rest[0] == '/';
  if (!known || digits.empty() || digits.size() > 4 ||
      !std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; }) ||
      std::stoll(std::string(digits)) == 0) {
    node.fail_expected("channels, channels * N or channels / N");
  }
  const int64_t number = std::stoll(std::string(digits));
  return rest[0] == '*' ? channels * number : std::max<int64_t>(channels / number, 1);
}

void check_most(const YamlNode& node, int64_t extent) {
  if (extent <= most_channels) return;
  node.fail_expected(fmt::format("at most {} channels, not {}", most_channels, extent));
}

}  // namespace

Extent read_extent(const YamlNode& node, const LayerContext& context) {
  if (const auto extent = of_channels(node, context.flow.channels())) {
    check_most(node, *extent);
    return {.value = *extent};
  }
  if (node.text() != "classes") return {.value = node.as_int({.min = 1, .max = most_channels})};
  if (context.classes < 1) {
    fail(ErrorKind::usage, "{}: the number of classes is not known here; give a number",
         place_of(node));
  }
  return {.value = context.classes, .head = true};
}

Extent read_filters(const YamlNode& node, const LayerContext& context) {
  Extent filters = read_extent(node, context);
  const bool is_number = !node.text().empty() && node.text()[0] >= '0' && node.text()[0] <= '9';
  if (!is_number || context.width == 1) return filters;
  const double wanted = static_cast<double>(filters.value) * context.width;
  filters.value = std::max<int64_t>(8, static_cast<int64_t>(wanted + 4) / 8 * 8);
  if (static_cast<double>(filters.value) < 0.9 * wanted) filters.value += 8;
  check_most(node, filters.value);
  return filters;
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
