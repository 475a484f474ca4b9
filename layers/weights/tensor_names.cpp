// Tables of layers that are equal but for their names. A pattern's {a} is any number, {a+1} the
// same one more; the last part of a name, the parameter's own, is equal unless a row has it.
#include "layers/weights/tensor_names.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include <fmt/format.h>

namespace whisker {
namespace {

constexpr int most_layers = 1'000'000;

struct NamePair {
  std::string_view timm, torchvision;
};

/// The names of a layer, or the beginnings of those of `layers`.
struct Rows {
  std::string_view timm, torchvision;
  std::span<const NamePair> layers = {};
  int count = 0;  ///< {b} is below it; 0: any number
};

// VGG's dense layers are convolutions in timm.
constexpr Rows vgg[] = {
    {"features.{a}", "features.{a}"},
    {"pre_logits.fc1", "classifier.0"},
    {"pre_logits.fc2", "classifier.3"},
    {"head.fc", "classifier.6"},
};

// Blocks of MobileNets and EfficientNets: with or without an expansion before the depthwise
// convolution, with or without squeeze-and-excitation behind it.
constexpr NamePair depthwise[] = {
    {"conv_dw", "0.0"}, {"bn1", "0.1"}, {"conv_pw", "1.0"}, {"bn2", "1.1"}};
constexpr NamePair depthwise_se[] = {{"conv_dw", "0.0"},          {"bn1", "0.1"},
                                     {"se.conv_reduce", "1.fc1"}, {"se.conv_expand", "1.fc2"},
                                     {"conv_pw", "2.0"},          {"bn2", "2.1"}};
constexpr NamePair inverted[] = {{"conv_pw", "0.0"}, {"bn1", "0.1"},      {"conv_dw", "1.0"},
                                 {"bn2", "1.1"},     {"conv_pwl", "2.0"}, {"bn3", "2.1"}};
constexpr NamePair inverted_se[] = {{"conv_pw", "0.0"},          {"bn1", "0.1"},
                                    {"conv_dw", "1.0"},          {"bn2", "1.1"},
                                    {"se.conv_reduce", "2.fc1"}, {"se.conv_expand", "2.fc2"},
                                    {"conv_pwl", "3.0"},         {"bn3", "3.1"}};
constexpr NamePair fused_first[] = {{"conv", "0.0"}, {"bn1", "0.1"}};
constexpr NamePair fused[] = {
    {"conv_exp", "0.0"}, {"bn1", "0.1"}, {"conv_pwl", "1.0"}, {"bn2", "1.1"}};
constexpr NamePair v2_first[] = {
    {"conv_dw", "0.0"}, {"bn1", "0.1"}, {"conv_pw", "1"}, {"bn2", "2"}};
constexpr NamePair v2_inverted[] = {{"conv_pw", "0.0"}, {"bn1", "0.1"},    {"conv_dw", "1.0"},
                                    {"bn2", "1.1"},     {"conv_pwl", "2"}, {"bn3", "3"}};

constexpr Rows mobilenet_v2[] = {
    {"conv_stem", "features.0.0"},
    {"bn1", "features.0.1"},
    {"blocks.0.0", "features.1.conv", v2_first},
    {"blocks.1.{b}", "features.{b+2}.conv", v2_inverted, 2},
    {"blocks.2.{b}", "features.{b+4}.conv", v2_inverted, 3},
    {"blocks.3.{b}", "features.{b+7}.conv", v2_inverted, 4},
    {"blocks.4.{b}", "features.{b+11}.conv", v2_inverted, 3},
    {"blocks.5.{b}", "features.{b+14}.conv", v2_inverted, 3},
    {"blocks.6.{b}", "features.{b+17}.conv", v2_inverted, 1},
    {"conv_head", "features.18.0"},
    {"bn2", "features.18.1"},
    {"classifier", "classifier.1"},
};

constexpr Rows mobilenet_v3_large[] = {
    {"conv_stem", "features.0.0"},
    {"bn1", "features.0.1"},
    {"blocks.0.0", "features.1.block", depthwise},
    {"blocks.1.{b}", "features.{b+2}.block", inverted, 2},
    {"blocks.2.{b}", "features.{b+4}.block", inverted_se, 3},
    {"blocks.3.{b}", "features.{b+7}.block", inverted, 4},
    {"blocks.4.{b}", "features.{b+11}.block", inverted_se, 2},
    {"blocks.5.{b}", "features.{b+13}.block", inverted_se, 3},
    {"blocks.6.0.conv", "features.16.0"},
    {"blocks.6.0.bn1", "features.16.1"},
    {"conv_head", "classifier.0"},
    {"classifier", "classifier.3"},
};

constexpr Rows mobilenet_v3_small[] = {
    {"conv_stem", "features.0.0"},
    {"bn1", "features.0.1"},
    {"blocks.0.0", "features.1.block", depthwise_se},
    {"blocks.1.{b}", "features.{b+2}.block", inverted, 2},
    {"blocks.2.{b}", "features.{b+4}.block", inverted_se, 3},
    {"blocks.3.{b}", "features.{b+7}.block", inverted_se, 2},
    {"blocks.4.{b}", "features.{b+9}.block", inverted_se, 3},
    {"blocks.5.0.conv", "features.12.0"},
    {"blocks.5.0.bn1", "features.12.1"},
    {"conv_head", "classifier.0"},
    {"classifier", "classifier.3"},
};

constexpr Rows efficientnet_v2[] = {
    {"conv_stem", "features.0.0"},
    {"bn1", "features.0.1"},
    {"blocks.0.{b}", "features.1.{b}.block", fused_first},
    {"blocks.1.{b}", "features.2.{b}.block", fused},
    {"blocks.2.{b}", "features.3.{b}.block", fused},
    {"blocks.3.{b}", "features.4.{b}.block", inverted_se},
    {"blocks.4.{b}", "features.5.{b}.block", inverted_se},
    {"blocks.5.{b}", "features.6.{b}.block", inverted_se},
    {"conv_head", "features.7.0"},
    {"bn2", "features.7.1"},
    {"classifier", "classifier.1"},
};

constexpr Rows efficientnet[] = {
    {"conv_stem", "features.0.0"},
    {"bn1", "features.0.1"},
    {"blocks.0.{b}", "features.1.{b}.block", depthwise_se},
    {"blocks.{a}.{b}", "features.{a+1}.{b}.block", inverted_se},
    {"conv_head", "features.8.0"},
    {"bn2", "features.8.1"},
    {"classifier", "classifier.1"},
};

constexpr NamePair regnet_block[] = {{"conv1.conv", "f.a.0"},       {"conv1.bn", "f.a.1"},
                                     {"conv2.conv", "f.b.0"},       {"conv2.bn", "f.b.1"},
                                     {"se.fc1", "f.se.fc1"},        {"se.fc2", "f.se.fc2"},
                                     {"conv3.conv", "f.c.0"},       {"conv3.bn", "f.c.1"},
                                     {"downsample.conv", "proj.0"}, {"downsample.bn", "proj.1"}};
constexpr Rows regnet[] = {
    {"stem.conv", "stem.0"},
    {"stem.bn", "stem.1"},
    {"s{a}.b{b+1}", "trunk_output.block{a}.block{a}-{b}", regnet_block},
    {"head.fc", "fc"},
};

constexpr NamePair convnext_block[] = {{"conv_dw", "block.0"},
                                       {"norm", "block.2"},
                                       {"mlp.fc1", "block.3"},
                                       {"mlp.fc2", "block.5"},
                                       {"gamma", "layer_scale"}};
constexpr Rows convnext[] = {
    {"stem.{b}", "features.0.{b}"},
    {"stages.1.downsample.{b}", "features.2.{b}"},
    {"stages.2.downsample.{b}", "features.4.{b}"},
    {"stages.3.downsample.{b}", "features.6.{b}"},
    {"stages.0.blocks.{b}", "features.1.{b}", convnext_block},
    {"stages.1.blocks.{b}", "features.3.{b}", convnext_block},
    {"stages.2.blocks.{b}", "features.5.{b}", convnext_block},
    {"stages.3.blocks.{b}", "features.7.{b}", convnext_block},
    {"head.norm", "classifier.0"},
    {"head.fc", "classifier.2"},
};

constexpr NamePair vit_block[] = {{"norm1", "ln_1"},
                                  {"attn.qkv.weight", "self_attention.in_proj_weight"},
                                  {"attn.qkv.bias", "self_attention.in_proj_bias"},
                                  {"attn.proj", "self_attention.out_proj"},
                                  {"norm2", "ln_2"},
                                  {"mlp.fc1", "mlp.0"},
                                  {"mlp.fc2", "mlp.3"}};
constexpr Rows vit[] = {
    {"cls_token", "class_token"},
    {"pos_embed", "encoder.pos_embedding"},
    {"patch_embed.proj", "conv_proj"},
    {"blocks.{a}", "encoder.layers.encoder_layer_{a}", vit_block},
    {"norm", "encoder.ln"},
    {"head", "heads.head"},
};

// A table that covers another one's names comes behind it.
constexpr std::span<const Rows> tables[] = {vgg,
                                            mobilenet_v2,
                                            mobilenet_v3_large,
                                            mobilenet_v3_small,
                                            efficientnet_v2,
                                            efficientnet,
                                            regnet,
                                            convnext,
                                            vit};

// A pattern over a layer's name; the numbers in braces are read into, or written from, `numbers`.
using Numbers = std::map<char, int>;

struct Place {
  char letter;
  int shift;
  size_t end;  // behind the brace
};
Place place_at(std::string_view pattern, size_t brace) {
  const size_t end = pattern.find('}', brace);
  Place place{.letter = pattern[brace + 1], .shift = 0, .end = end + 1};
  const std::string_view shift = pattern.substr(brace + 2, end - brace - 2);
  if (!shift.empty()) {  // "+1"
    std::from_chars(shift.data() + (shift[0] == '+' ? 1 : 0), shift.data() + shift.size(),
                    place.shift);
  }
  return place;
}

std::optional<Numbers> match(std::string_view pattern, std::string_view name) {
  Numbers numbers;
  size_t at = 0;
  for (size_t i = 0; i < pattern.size();) {
    if (pattern[i] != '{') {
      if (at >= name.size() || name[at++] != pattern[i++]) return std::nullopt;
      continue;
    }
    const Place place = place_at(pattern, i);
    int number = 0;
    const auto read = std::from_chars(name.data() + at, name.data() + name.size(), number);
    if (read.ec != std::errc() || read.ptr == name.data() + at) return std::nullopt;
    if (number < place.shift || number > most_layers) return std::nullopt;
    const auto [found, added] = numbers.emplace(place.letter, number - place.shift);
    if (!added && found->second != number - place.shift) return std::nullopt;
    at = static_cast<size_t>(read.ptr - name.data());
    i = place.end;
  }
  if (at != name.size()) return std::nullopt;
  return numbers;
}

std::string write(std::string_view pattern, const Numbers& numbers) {
  std::string name;
  for (size_t i = 0; i < pattern.size();) {
    if (pattern[i] != '{') {
      name += pattern[i++];
      continue;
    }
    const Place place = place_at(pattern, i);
    const auto found = numbers.find(place.letter);
    name += std::to_string((found == numbers.end() ? 0 : found->second) + place.shift);
    i = place.end;
  }
  return name;
}

// The name by the table's first row that it fits.
std::optional<std::string> translate(std::span<const Rows> table, Naming to,
                                     std::string_view name) {
  const bool to_timm = to == Naming::timm;
  const size_t dot = std::min(name.rfind('.'), name.size());
  // Without the parameter's own part, or with it where a row has it.
  const auto by = [&](std::string_view timm, std::string_view torchvision,
                      int count) -> std::optional<std::string> {
    for (const size_t end : {dot, name.size()}) {
      const auto numbers = match(to_timm ? torchvision : timm, name.substr(0, end));
      if (!numbers) continue;
      const auto b = numbers->find('b');
      if (count > 0 && b != numbers->end() && b->second >= count) continue;
      return write(to_timm ? timm : torchvision, *numbers) + std::string(name.substr(end));
    }
    return std::nullopt;
  };
  for (const Rows& rows : table) {
    const std::string_view from = to_timm ? rows.torchvision : rows.timm;
    if (!name.starts_with(from.substr(0, from.find('{')))) continue;
    if (rows.layers.empty()) {
      if (auto found = by(rows.timm, rows.torchvision, rows.count)) return found;
    }
    for (const NamePair& layer : rows.layers) {
      const auto joined = [](std::string_view block, std::string_view part) {
        return fmt::format("{}.{}", block, part);
      };
      auto found = by(joined(rows.timm, layer.timm), joined(rows.torchvision, layer.torchvision),
                      rows.count);
      if (found) return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string bare_tensor_name(std::string name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view prefix : {"module.", "_orig_mod."}) {
      if (!name.starts_with(prefix)) continue;
      name.erase(0, prefix.size());
      again = true;
    }
  }
  return name;
}

std::vector<std::string> translated_names(std::span<const std::string> names,
                                          const std::function<bool(std::string_view)>& wanted) {
  std::vector<std::string> best(names.begin(), names.end());
  int64_t most = std::ranges::count_if(best, wanted);
  for (const std::span<const Rows> table : tables) {
    for (const Naming to : {Naming::torchvision, Naming::timm}) {
      std::vector<std::string> renamed(names.begin(), names.end());
      for (std::string& name : renamed) {
        if (wanted(name)) continue;
        if (auto other = translate(table, to, name)) name = std::move(*other);
      }
      const int64_t count = std::ranges::count_if(renamed, wanted);
      if (count <= most) continue;
      most = count;
      best = std::move(renamed);
    }
  }
  return best;
}

std::vector<std::string> names_of(Naming naming, std::span<const std::string> names) {
  for (const std::span<const Rows> table : tables) {
    std::vector<std::string> renamed;
    for (const std::string& name : names) {
      auto other = translate(table, naming, name);
      if (!other) break;
      renamed.push_back(std::move(*other));
    }
    if (renamed.size() == names.size()) return renamed;
  }
  return {names.begin(), names.end()};
}

}  // namespace whisker
