// A layer of every type as model files write it, for tests that all of them must pass.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace whisker::test {

/// What a layer reads: images, sequences of values, or sequences of tokens.
enum class LayerInput : uint8_t { image, sequence, tokens };

struct LayerCase {
  const char* text;  ///< as in a model file
  LayerInput kind = LayerInput::image;

  std::string type() const { return std::string(text).substr(0, std::string_view(text).find(':')); }
  /// As an item of a list of layers.
  std::string item() const {
    const std::string layer(text);
    return layer.find(':') == std::string::npos ? layer : "{" + layer + "}";
  }
};

inline constexpr LayerCase layer_cases[] = {
    {"conv2d: {filters: 6, kernel: 3, activation: silu}"},
    {"conv2d: {filters: 16, kernel: 4, strides: 2, padding: same}"},
    {"conv2d: {filters: 8, kernel: [3, 5], groups: 4}"},
    {"dense: {units: 5, activation: tanh}"},
    {"max_pool2d: 2"},
    {"max_pool2d: {kernel: 3, strides: 2, ceil: true}"},
    {"max_pool2d: {kernel: 9, strides: 2, ceil: true}"},
    {"avg_pool2d: 2"},
    {"adaptive_avg_pool2d: 4"},
    {"global_avg_pool2d"},
    {"global_max_pool2d"},
    {"blur_pool2d"},
    {"blur_pool2d: {kernel: 4, strides: 1}"},
    {"batch_norm: {activation: tanh}"},
    {"layer_norm"},
    {"group_norm: 2"},
    {"dropout: 0.4"},
    {"drop_path: 0.4"},
    {"layer_scale: 0.5"},
    {"multi_head_attention: 2"},
    {"multi_head_attention: {heads: 1, dropout: 0.3, use_bias: false, names: timm}"},
    {"class_token"},
    {"position_embedding"},
    {"position_embedding: 5"},
    {"sequential: [class_token, {position_embedding: [3, 12]}, first_token]"},
    {"sequential: [{class_token: 2}, {position_embedding: [3, 12]}, {first_token: 2}]"},
    {"first_token"},
    {"squeeze_excite: {units: channels / 2, gate: hard_sigmoid}"},
    {"sequential: [{batch_norm: {activation: silu}}, {squeeze_excite: {units: channels / 2}}]"},
    {"flatten"},
    {"embedding: {input_dim: 9, output_dim: 6}", LayerInput::tokens},
    {"simple_rnn: {units: 8, bidirectional: true}", LayerInput::sequence},
    {"lstm: {units: 8, layers: 2, return_sequences: true}", LayerInput::sequence},
    {"gru: 8", LayerInput::sequence},
    {"gru: {units: 8, bidirectional: true}", LayerInput::sequence},
    {"activation: silu"},
    {"relu"},
    {"leaky_relu: 0.2"},
    {"sigmoid"},
    {"tanh"},
    {"gelu"},
    {"silu"},
    {"softplus"},
    {"relu6"},
    {"hard_sigmoid"},
    {"hard_swish"},
    {"softmax"},
    {"sequential: [{conv2d: {filters: 4, kernel: 3}}, tanh]"},
    {"residual: {body: [{conv2d: {filters: 4, kernel: 1}}], activation: none}"},
    {"residual: {body: [{conv2d: {filters: 6, kernel: 3, padding: 1}}], "
     "projection: [{conv2d: {filters: 6, kernel: 1}}], activation: none}"},
    {"concat: [[{conv2d: {filters: 4, kernel: 1}}], [{conv2d: {filters: 3, kernel: 1}}]]"},
    {"sequential: [{dense: {units: 6, activation: tanh}}, {dense: {units: 5, use_bias: false}}, "
     "{dense: 4}]",
     LayerInput::sequence},
    {"multiply: [[], [global_avg_pool2d, {dense: {units: 4, activation: sigmoid}}]]"},
    {"repeat: {n: 2, layers: [{conv2d: {filters: 4, kernel: 3}}]}"},
};

}  // namespace whisker::test
