#include "train/model/hub_network.h"

#include "core/io/text.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace whisker {
namespace {

constexpr int64_t most_extent = 65536, most_blocks = 1000;
constexpr double least_epsilon = 1e-12;  // of a layer_norm

// A number, or two equal ones, of images and patches.
int64_t square_side(HubJson& config, const char* key, int64_t otherwise) {
  const JsonValue* const found = config.find(key);
  if (!found || !found->is_array()) return config.integer(key, 1, most_extent, otherwise);
  const std::vector<int64_t> sides = config.integers(key, {});
  config.require(key, sides.size() == 2 && sides[0] == sides[1], "equal height and width");
  return sides[0];
}

// Four numbers, one for each stage.
std::vector<int64_t> stage_numbers(HubJson& config, const char* key, std::vector<int64_t> otherwise,
                                   int64_t most) {
  std::vector<int64_t> values = config.integers(key, std::move(otherwise));
  const bool fine = values.size() == 4 && std::ranges::max(values) <= most;
  config.require(key, fine, fmt::format("four stages, of numbers up to {}", most));
  return values;
}

void require_name(HubJson& config, const std::string& name) {
  const JsonValue* const found = config.find("architectures");
  if (!found) return config.assume("architectures", fmt::format("['{}']", name));
  const auto& items = found->items();
  config.require("architectures", items.size() == 1 && items[0].as_string() == name,
                 fmt::format("['{}'], whose tensors these are", name));
}

void require_activation(HubJson& config, const char* name) {
  config.require("hidden_act", config.text("hidden_act", name) == name, fmt::format("'{}'", name));
}

int64_t rows_of(const SafetensorsFile& file, const HubJson& config, const char* head) {
  const SafetensorsTensor* const weight = file.find(head);
  if (!weight || weight->shape.empty() || weight->bytes.empty()) {
    fail(ErrorKind::checkpoint,
         "{}: expected the weights of a classifier, as {} says, got none ({}). Weights without a "
         "head cannot be used.",
         file.name(), config.name(), head);
  }
  return static_cast<int64_t>(weight->shape[0]);
}

HubNetwork vision_transformer(HubJson& config, bool deit, const SafetensorsFile& file) {
  const int64_t dim = config.integer("hidden_size", 1, most_extent, 768);
  const int64_t blocks = config.integer("num_hidden_layers", 1, most_blocks, 12);
  const int64_t heads = config.integer("num_attention_heads", 1, dim, 12);
  const int64_t mlp = config.integer("intermediate_size", 1, most_extent, 3072);
  const double epsilon = config.number("layer_norm_eps", least_epsilon, 1, 1e-12);
  const int64_t patch = square_side(config, "patch_size", 16);
  HubNetwork network{.image_size = square_side(config, "image_size", 224),
                     .classes = rows_of(file, config, "head.weight")};
  require_activation(config, "gelu");
  config.require("num_attention_heads", dim % heads == 0,
                 fmt::format("a divisor of hidden_size {}", dim));
  config.require("patch_size", patch <= network.image_size,
                 fmt::format("at most image_size {}", network.image_size));
  const auto inputs = static_cast<int64_t>(file.find("head.weight")->shape.back());
  const bool two_heads = deit && inputs == 2 * dim;
  network.name = fmt::format("{}ForImageClassification{}", deit ? "DeiT" : "ViT",
                             two_heads ? "WithTeacher" : "");
  network.section = fmt::format(
      "{{preset: vit_s_16, grid: {}, values: {{dim: {}, heads: {}, patch: {}, blocks: {}, mlp: {}, "
      "mlp_out: {}, tokens: {}, head_tokens: {}}}, overrides: {{layer_norm: {{epsilon: {}}}}}}}",
      network.image_size / patch, dim, heads, patch, blocks, mlp, dim, deit ? 2 : 1,
      two_heads ? 2 : 1, epsilon);
  return network;
}

HubNetwork convnext(HubJson& config, const SafetensorsFile& file) {
  const std::vector<int64_t> depths = stage_numbers(config, "depths", {3, 3, 9, 3}, most_blocks);
  const std::vector<int64_t> sizes =
      stage_numbers(config, "hidden_sizes", {96, 192, 384, 768}, most_extent);
  const double epsilon = config.number("layer_norm_eps", least_epsilon, 1, 1e-12);
  const double drop_path = config.number("drop_path_rate", 0, 0.999, 0);
  config.require("num_stages", config.integer("num_stages", 1, 100, 4) == 4, "4");
  config.require("patch_size", square_side(config, "patch_size", 4) == 4, "4");
  require_activation(config, "gelu");
  HubNetwork network{.name = "ConvNextForImageClassification",
                     .image_size = square_side(config, "image_size", 224),
                     .any_size = true,
                     .classes = rows_of(file, config, "classifier.2.weight")};
  network.section = fmt::format(
      "{{preset: convnext_tiny, drop_path: {}, values: {{n1: {}, n2: {}, n3: {}, n4: {}, w1: {}, "
      "w2: {}, w3: {}, w4: {}, head_epsilon: {}}}}}",
      drop_path, depths[0], depths[1], depths[2], depths[3], sizes[0], sizes[1], sizes[2], sizes[3],
      epsilon);
  return network;
}

HubNetwork resnet(HubJson& config, const SafetensorsFile& file) {
  const std::string layer = config.text("layer_type", "bottleneck");
  config.require("layer_type", layer == "bottleneck" || layer == "basic", "bottleneck or basic");
  const int64_t stem = config.integer("embedding_size", 1, most_extent, 64);
  const std::vector<int64_t> depths = stage_numbers(config, "depths", {3, 4, 6, 3}, most_blocks);
  const std::vector<int64_t> sizes =
      stage_numbers(config, "hidden_sizes", {256, 512, 1024, 2048}, most_extent);
  for (const char* const stride : {"downsample_in_first_stage", "downsample_in_bottleneck"}) {
    config.require(stride, !config.flag(stride, false), "false");
  }
  require_activation(config, "relu");
  HubNetwork network{.name = "ResNetForImageClassification",
                     .image_size = 224,
                     .any_size = true,
                     .classes = rows_of(file, config, "fc.weight")};
  if (layer == "basic") {
    config.require("embedding_size", stem == sizes[0],
                   fmt::format("{}, as hidden_sizes begins", sizes[0]));
    network.section = fmt::format(
        "{{preset: resnet34, values: {{n1: {}, n2: {}, n3: {}, n4: {}, w1: {}, w2: {}, w3: {}, w4: "
        "{}}}}}",
        depths[0], depths[1] - 1, depths[2] - 1, depths[3] - 1, sizes[0], sizes[1], sizes[2],
        sizes[3]);
    return network;
  }
  config.require("hidden_sizes",
                 std::ranges::all_of(sizes, [](int64_t size) { return size % 4 == 0; }),
                 "multiples of 4");
  network.section = fmt::format(
      "{{preset: resnet50, values: {{n1: {}, n2: {}, n3: {}, n4: {}, w1: {}, w2: {}, w3: {}, w4: "
      "{}, "
      "stem: {}, c1: {}, c2: {}, c3: {}, c4: {}}}}}",
      depths[0] - 1, depths[1] - 1, depths[2] - 1, depths[3] - 1, sizes[0] / 4, sizes[1] / 4,
      sizes[2] / 4, sizes[3] / 4, stem, sizes[0], sizes[1], sizes[2], sizes[3]);
  return network;
}

}  // namespace

bool is_hub_network(std::string_view model_type) {
  constexpr std::array<std::string_view, 4> known = {"vit", "deit", "convnext", "resnet"};
  return std::ranges::find(known, model_type) != known.end();
}

HubNetwork hub_network(HubJson& config, std::string_view model_type, const SafetensorsFile& file) {
  HubNetwork network = model_type == "convnext" ? convnext(config, file)
                       : model_type == "resnet"
                           ? resnet(config, file)
                           : vision_transformer(config, model_type == "deit", file);
  require_name(config, network.name);
  config.require("num_channels", config.integer("num_channels", 1, most_extent, 3) == 3,
                 "3, as images are RGB");
  if (const JsonValue* const problem = config.find("problem_type")) {
    config.require("problem_type", problem->as_string() == "single_label_classification",
                   "'single_label_classification': one class for each image");
  }
  if (network.classes < 2) {
    fail(ErrorKind::checkpoint,
         "{}: expected a head of two outputs or more, got {}: transformers takes it for a "
         "regression.",
         file.name(), network.classes);
  }
  return network;
}

}  // namespace whisker
