// Tables of layers that are equal but for their names. A pattern's {a} is any number, {a+1} the
// same one more; the last part of a name, the parameter's own, is equal unless a row has it.
#pragma once

#include <span>
#include <string_view>

namespace whisker::name_tables {

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
inline constexpr Rows vgg[] = {
    {"features.{a}", "features.{a}"},
    {"pre_logits.fc1", "classifier.0"},
    {"pre_logits.fc2", "classifier.3"},
    {"head.fc", "classifier.6"},
};

// Blocks of MobileNets and EfficientNets: with or without an expansion before the depthwise
// convolution, with or without squeeze-and-excitation behind it.
inline constexpr NamePair depthwise[] = {
    {"conv_dw", "0.0"}, {"bn1", "0.1"}, {"conv_pw", "1.0"}, {"bn2", "1.1"}};
inline constexpr NamePair depthwise_se[] = {
    {"conv_dw", "0.0"},          {"bn1", "0.1"},     {"se.conv_reduce", "1.fc1"},
    {"se.conv_expand", "1.fc2"}, {"conv_pw", "2.0"}, {"bn2", "2.1"}};
inline constexpr NamePair inverted[] = {{"conv_pw", "0.0"}, {"bn1", "0.1"},      {"conv_dw", "1.0"},
                                        {"bn2", "1.1"},     {"conv_pwl", "2.0"}, {"bn3", "2.1"}};
inline constexpr NamePair inverted_se[] = {{"conv_pw", "0.0"},          {"bn1", "0.1"},
                                           {"conv_dw", "1.0"},          {"bn2", "1.1"},
                                           {"se.conv_reduce", "2.fc1"}, {"se.conv_expand", "2.fc2"},
                                           {"conv_pwl", "3.0"},         {"bn3", "3.1"}};
inline constexpr NamePair fused_first[] = {{"conv", "0.0"}, {"bn1", "0.1"}};
inline constexpr NamePair fused[] = {
    {"conv_exp", "0.0"}, {"bn1", "0.1"}, {"conv_pwl", "1.0"}, {"bn2", "1.1"}};
inline constexpr NamePair v2_first[] = {
    {"conv_dw", "0.0"}, {"bn1", "0.1"}, {"conv_pw", "1"}, {"bn2", "2"}};
inline constexpr NamePair v2_inverted[] = {{"conv_pw", "0.0"}, {"bn1", "0.1"},
                                           {"conv_dw", "1.0"}, {"bn2", "1.1"},
                                           {"conv_pwl", "2"},  {"bn3", "3"}};

inline constexpr Rows mobilenet_v2[] = {
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

inline constexpr Rows mobilenet_v3_large[] = {
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

inline constexpr Rows mobilenet_v3_small[] = {
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

inline constexpr Rows efficientnet_v2[] = {
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

inline constexpr Rows efficientnet[] = {
    {"conv_stem", "features.0.0"},
    {"bn1", "features.0.1"},
    {"blocks.0.{b}", "features.1.{b}.block", depthwise_se},
    {"blocks.{a}.{b}", "features.{a+1}.{b}.block", inverted_se},
    {"conv_head", "features.8.0"},
    {"bn2", "features.8.1"},
    {"classifier", "classifier.1"},
};

inline constexpr NamePair regnet_block[] = {
    {"conv1.conv", "f.a.0"},    {"conv1.bn", "f.a.1"},  {"conv2.conv", "f.b.0"},
    {"conv2.bn", "f.b.1"},      {"se.fc1", "f.se.fc1"}, {"se.fc2", "f.se.fc2"},
    {"conv3.conv", "f.c.0"},    {"conv3.bn", "f.c.1"},  {"downsample.conv", "proj.0"},
    {"downsample.bn", "proj.1"}};
inline constexpr Rows regnet[] = {
    {"stem.conv", "stem.0"},
    {"stem.bn", "stem.1"},
    {"s{a}.b{b+1}", "trunk_output.block{a}.block{a}-{b}", regnet_block},
    {"head.fc", "fc"},
};

inline constexpr NamePair convnext_block[] = {{"conv_dw", "block.0"},
                                              {"norm", "block.2"},
                                              {"mlp.fc1", "block.3"},
                                              {"mlp.fc2", "block.5"},
                                              {"gamma", "layer_scale"}};
inline constexpr Rows convnext[] = {
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

inline constexpr NamePair vit_block[] = {{"norm1", "ln_1"},
                                         {"attn.qkv.weight", "self_attention.in_proj_weight"},
                                         {"attn.qkv.bias", "self_attention.in_proj_bias"},
                                         {"attn.proj", "self_attention.out_proj"},
                                         {"norm2", "ln_2"},
                                         {"mlp.fc1", "mlp.0"},
                                         {"mlp.fc2", "mlp.3"}};
inline constexpr Rows vit[] = {
    {"cls_token", "class_token"},
    {"pos_embed", "encoder.pos_embedding"},
    {"patch_embed.proj", "conv_proj"},
    {"blocks.{a}", "encoder.layers.encoder_layer_{a}", vit_block},
    {"norm", "encoder.ln"},
    {"head", "heads.head"},
};

// EfficientNet-Lite0, which torchvision lacks: the names of EfficientNet-PyTorch, which numbers the
// blocks through, stand where torchvision's do.
inline constexpr NamePair lite_first[] = {
    {"conv_dw", "_depthwise_conv"}, {"bn1", "_bn1"}, {"conv_pw", "_project_conv"}, {"bn2", "_bn2"}};
inline constexpr NamePair lite[] = {{"conv_pw", "_expand_conv"},    {"bn1", "_bn0"},
                                    {"conv_dw", "_depthwise_conv"}, {"bn2", "_bn1"},
                                    {"conv_pwl", "_project_conv"},  {"bn3", "_bn2"}};
inline constexpr Rows efficientnet_lite0[] = {
    {"conv_stem", "_conv_stem"},
    {"bn1", "_bn0"},
    {"blocks.0.0", "_blocks.0", lite_first},
    {"blocks.1.{b}", "_blocks.{b+1}", lite, 2},
    {"blocks.2.{b}", "_blocks.{b+3}", lite, 2},
    {"blocks.3.{b}", "_blocks.{b+5}", lite, 3},
    {"blocks.4.{b}", "_blocks.{b+8}", lite, 3},
    {"blocks.5.{b}", "_blocks.{b+11}", lite, 4},
    {"blocks.6.{b}", "_blocks.{b+15}", lite, 1},
    {"conv_head", "_conv_head"},
    {"bn2", "_bn1"},
    {"classifier", "_fc"},
};

// A table that covers another one's names comes behind it.
inline constexpr std::span<const Rows> tables[] = {vgg,
                                                   efficientnet_lite0,
                                                   mobilenet_v2,
                                                   mobilenet_v3_large,
                                                   mobilenet_v3_small,
                                                   efficientnet_v2,
                                                   efficientnet,
                                                   regnet,
                                                   convnext,
                                                   vit};

// Classifiers of Hugging Face's transformers, without the network's own prefix (`vit.`): their
// names stand where timm's do, beside those of the preset that reads them.
inline constexpr NamePair transformers_vit_block[] = {
    {"layernorm_before", "norm1"},           {"attention.attention.query", "attn.q"},
    {"attention.attention.key", "attn.k"},   {"attention.attention.value", "attn.v"},
    {"attention.output.dense", "attn.proj"}, {"layernorm_after", "norm2"},
    {"intermediate.dense", "mlp.fc1"},       {"output.dense", "mlp.fc2"}};
inline constexpr Rows transformers_vit[] = {
    {"embeddings.cls_token", "cls_token"},
    {"embeddings.distillation_token", "dist_token"},
    {"embeddings.position_embeddings", "pos_embed"},
    {"embeddings.patch_embeddings.projection", "patch_embed.proj"},
    {"encoder.layer.{a}", "blocks.{a}", transformers_vit_block},
    {"layernorm", "norm"},
    {"classifier", "head"},
    {"cls_classifier", "head"},
    {"distillation_classifier", "head_dist"},
};

inline constexpr NamePair transformers_convnext_block[] = {
    {"dwconv", "block.0"},
    {"layernorm", "block.2"},
    {"pwconv1", "block.3"},
    {"pwconv2", "block.5"},
    {"layer_scale_parameter", "layer_scale"}};
inline constexpr Rows transformers_convnext[] = {
    {"embeddings.patch_embeddings", "features.0.0"},
    {"embeddings.layernorm", "features.0.1"},
    {"encoder.stages.1.downsampling_layer.{b}", "features.2.{b}"},
    {"encoder.stages.2.downsampling_layer.{b}", "features.4.{b}"},
    {"encoder.stages.3.downsampling_layer.{b}", "features.6.{b}"},
    {"encoder.stages.0.layers.{b}", "features.1.{b}", transformers_convnext_block},
    {"encoder.stages.1.layers.{b}", "features.3.{b}", transformers_convnext_block},
    {"encoder.stages.2.layers.{b}", "features.5.{b}", transformers_convnext_block},
    {"encoder.stages.3.layers.{b}", "features.7.{b}", transformers_convnext_block},
    {"layernorm", "classifier.0"},
    {"classifier", "classifier.2"},
};

inline constexpr NamePair transformers_resnet_block[] = {
    {"layer.{c}.convolution", "conv{c+1}"},
    {"layer.{c}.normalization", "bn{c+1}"},
    {"shortcut.convolution", "downsample.0"},
    {"shortcut.normalization", "downsample.1"}};
inline constexpr Rows transformers_resnet[] = {
    {"embedder.embedder.convolution", "conv1"},
    {"embedder.embedder.normalization", "bn1"},
    {"encoder.stages.{a}.layers.{b}", "layer{a+1}.{b}", transformers_resnet_block},
    {"classifier.1", "fc"},
};

}  // namespace whisker::name_tables
