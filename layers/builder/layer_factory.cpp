// One function per layer: read settings, fill options. Keys are Keras' with PyTorch's as synonyms.
#include "layers/builder/layer_factory.h"

#include "layers/builder/shared_settings.h"
#include "layers/layers.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace whisker {
namespace {

MadeLayer make_conv2d(LayerArguments& arguments, const LayerContext& context) {
  const Extent filters = read_extent(arguments.required({"filters", "out_channels"}), context);
  arguments.required({"kernel", "kernel_size"});
  const Padding padding = read_padding(arguments);
  const OutputActivation activation =
      read_output_activation(arguments.find({"activation"}), context);
  const Conv2D::Options options{
      .in_channels = context.flow.channels(),
      .filters = filters.value,
      .kernel = *arguments.pair({"kernel", "kernel_size"}, 1),
      .stride = arguments.pair({"strides", "stride"}, 1).value_or(1),
      .padding = padding.amount,
      .padding_mode = padding.mode,
      .dilation = arguments.pair({"dilation", "dilation_rate"}, 1).value_or(1),
      .groups = arguments.integer({"groups"}, {.min = 1, .max = most_channels}, 1),
      .bias = arguments.boolean({"use_bias", "bias"}, true),
      .activation = activation.fused,
      .weight_initializer = weight_start(arguments, context),
      .bias_initializer = bias_start(arguments, context)};
  return {std::make_shared<Conv2D>(options), activation.output, filters.head};
}

MadeLayer make_dense(LayerArguments& arguments, const LayerContext& context) {
  const Extent units = read_extent(arguments.required({"units", "out_features"}), context);
  const OutputActivation activation =
      read_output_activation(arguments.find({"activation"}), context);
  const Dense::Options options{.in_features = context.flow.channels(),
                               .units = units.value,
                               .bias = arguments.boolean({"use_bias", "bias"}, true),
                               .activation = activation.fused,
                               .weight_initializer = weight_start(arguments, context),
                               .bias_initializer = bias_start(arguments, context),
                               .flattened_channels = context.flow.flattened_channels};
  return {std::make_shared<Dense>(options), activation.output, units.head};
}

Pool2dOptions read_pool(LayerArguments& arguments) {
  const Padding padding = read_padding(arguments);
  return {.kernel = arguments.pair({"kernel", "pool_size", "kernel_size"}, 1).value_or(2),
          .stride = arguments.pair({"strides", "stride"}, 1),
          .padding = padding.amount,
          .padding_mode = padding.mode,
          .ceil = arguments.boolean({"ceil", "ceil_mode"}, false)};
}

MadeLayer make_max_pool2d(LayerArguments& arguments, const LayerContext&) {
  return {std::make_shared<MaxPool2D>(read_pool(arguments))};
}

MadeLayer make_avg_pool2d(LayerArguments& arguments, const LayerContext&) {
  Pool2dOptions options = read_pool(arguments);
  options.count_padding = arguments.boolean({"count_padding", "count_include_pad"}, false);
  return {std::make_shared<AvgPool2D>(options)};
}

MadeLayer make_adaptive_avg_pool2d(LayerArguments& arguments, const LayerContext&) {
  arguments.required({"output", "output_size"});
  return {std::make_shared<AdaptiveAvgPool2D>(*arguments.pair({"output", "output_size"}, 1))};
}

MadeLayer make_global_avg_pool2d(LayerArguments&, const LayerContext&) {
  return {std::make_shared<GlobalAvgPool2D>()};
}

MadeLayer make_batch_norm(LayerArguments& arguments, const LayerContext& context) {
  const YamlNode* activation = arguments.find({"activation"});
  const BatchNorm::Options options{
      .channels = context.flow.channels(),
      .momentum = arguments.number({"momentum"}, {.min = 0, .max = 1}, 0.1),
      .epsilon = arguments.number({"epsilon", "eps"}, {.min = 1e-12, .max = 1}, 1e-5),
      .activation = activation ? read_activation(*activation) : ActivationSpec{},
      .flattened_channels = context.flow.flattened_channels,
      .initial_weight = arguments.number({"initial_weight"}, {.min = 0, .max = 10}, 1)};
  return {std::make_shared<BatchNorm>(options)};
}

MadeLayer make_layer_norm(LayerArguments& arguments, const LayerContext& context) {
  const LayerNorm::Options options{
      .features = context.flow.channels(),
      .epsilon = arguments.number({"epsilon", "eps"}, {.min = 1e-12, .max = 1}, 1e-5),
      .flattened_channels = context.flow.flattened_channels};
  return {std::make_shared<LayerNorm>(options)};
}

MadeLayer make_group_norm(LayerArguments& arguments, const LayerContext& context) {
  if (context.flow.flattened_channels > 0) {
    fail(ErrorKind::usage,
         "behind a flatten, groups would be other features than in weights files, where channels "
         "come first. Put group_norm before the flatten.");
  }
  const GroupNorm::Options options{
      .channels = context.flow.channels(),
      .groups = arguments.integer({"groups", "num_groups"}, {.min = 1, .max = most_channels}, 32),
      .epsilon = arguments.number({"epsilon", "eps"}, {.min = 1e-12, .max = 1}, 1e-5)};
  return {std::make_shared<GroupNorm>(options)};
}

MadeLayer make_dropout(LayerArguments& arguments, const LayerContext&) {
  return {std::make_shared<Dropout>(
      arguments.required({"rate", "p"}).as_double({.min = 0, .max = 0.999}))};
}

MadeLayer make_flatten(LayerArguments&, const LayerContext&) {
  return {std::make_shared<Flatten>()};
}

MadeLayer make_embedding(LayerArguments& arguments, const LayerContext& context) {
  constexpr YamlRange<int64_t> range{.min = 1, .max = 1 << 28};
  const YamlNode& entries = arguments.required({"input_dim", "num_embeddings"});
  if (entries.text() == "vocabulary" && context.vocabulary < 1) {
    fail(ErrorKind::usage, "{}: only text has a vocabulary (data.kind); give a number",
         place_of(entries));
  }
  Embedding::Options options{
      .entries = entries.text() == "vocabulary" ? context.vocabulary : entries.as_int(range),
      .features = arguments.required({"output_dim", "embedding_dim"}).as_int(range)};
  if (const YamlNode* start = arguments.find({"embeddings_initializer", "weight_initializer"})) {
    options.weight_initializer = read_initializer(*start);
  }
  return {std::make_shared<Embedding>(options)};
}

// simple_rnn's activation; lstm and gru have theirs.
RecurrentKind read_step_activation(LayerArguments& arguments) {
  const YamlNode* node = arguments.find({"activation", "nonlinearity"});
  if (!node || node->text() == "tanh") return RecurrentKind::rnn_tanh;
  if (node->text() != "relu") node->fail_expected("tanh or relu");
  return RecurrentKind::rnn_relu;
}

template <RecurrentKind kind>
MadeLayer make_recurrent(LayerArguments& arguments, const LayerContext& context) {
  constexpr bool simple = kind == RecurrentKind::rnn_tanh;
  constexpr bool lstm = kind == RecurrentKind::lstm;
  const Extent units = read_extent(arguments.required({"units", "hidden_size"}), context);
  constexpr YamlRange<int64_t> extents{.min = 1, .max = most_channels};
  const Recurrent::Options options{
      .kind = simple ? read_step_activation(arguments) : kind,
      .features = context.flow.channels(),
      .units = units.value,
      .layers = arguments.integer({"layers", "num_layers"}, {.min = 1, .max = 64}, 1),
      .bidirectional = arguments.boolean({"bidirectional"}, false),
      .dropout = arguments.number({"dropout"}, {.min = 0, .max = 0.999}, 0),
      .return_sequences = arguments.boolean({"return_sequences"}, false),
      .projection = lstm && arguments.find({"projection", "proj_size"})
                        ? arguments.integer({"projection", "proj_size"}, extents, 1)
                        : 0,
      .bias = arguments.boolean({"use_bias", "bias"}, true),
      .batch_first = arguments.boolean({"batch_first"}, false),
      .keras_start = context.keras_start};
  return {std::make_shared<Recurrent>(options), {}, units.head};
}

MadeLayer make_activation(LayerArguments& arguments, const LayerContext& context) {
  const YamlNode& kind = arguments.required({"activation"});
  const OutputActivation activation = read_output_activation(&kind, context);
  if (activation.output) return {.output = activation.output};
  return {std::make_shared<ActivationLayer>(activation.fused)};
}

MadeLayer make_leaky_relu(LayerArguments& arguments, const LayerContext&) {
  const double slope =
      arguments.number({"slope", "negative_slope", "alpha"}, {.min = 0, .max = 1}, 0.01);
  return {std::make_shared<ActivationLayer>(
      ActivationSpec{.kind = Activation::leaky_relu, .slope = static_cast<float>(slope)})};
}

template <Activation kind>
MadeLayer make_plain(LayerArguments&, const LayerContext& context) {
  if (kind == Activation::sigmoid && context.tail) return {.output = OutputKind::sigmoid};
  return {std::make_shared<ActivationLayer>(ActivationSpec{.kind = kind})};
}

MadeLayer make_softmax(LayerArguments&, const LayerContext& context) {
  if (context.tail) return {.output = OutputKind::softmax};
  return {std::make_shared<Softmax>()};
}

using Maker = MadeLayer (*)(LayerArguments&, const LayerContext&);

struct LayerType {
  std::string_view name;
  std::string_view short_setting;
  Maker make;                                     // null for containers
  std::array<std::string_view, 3> synonyms = {};  // lower case, without underscores
};

constexpr LayerType types[] = {
    {"conv2d", "filters", make_conv2d, {"convolution2d", "conv"}},
    {"dense", "units", make_dense, {"linear", "fullyconnected"}},
    {"max_pool2d", "kernel", make_max_pool2d, {"maxpooling2d", "maxpool"}},
    {"avg_pool2d", "kernel", make_avg_pool2d, {"averagepooling2d", "avgpool", "avgpooling2d"}},
    {"adaptive_avg_pool2d", "output", make_adaptive_avg_pool2d, {"adaptiveaveragepooling2d"}},
    {"global_avg_pool2d", "", make_global_avg_pool2d, {"globalaveragepooling2d", "globalavgpool"}},
    {"batch_norm", "", make_batch_norm, {"batchnormalization", "batchnorm2d", "batchnorm1d"}},
    {"layer_norm", "", make_layer_norm, {"layernormalization"}},
    {"group_norm", "groups", make_group_norm, {"groupnormalization"}},
    {"dropout", "rate", make_dropout},
    {"flatten", "", make_flatten},
    {"embedding", "", make_embedding},
    {"simple_rnn", "units", make_recurrent<RecurrentKind::rnn_tanh>, {"rnn"}},
    {"lstm", "units", make_recurrent<RecurrentKind::lstm>},
    {"gru", "units", make_recurrent<RecurrentKind::gru>},
    {"activation", "activation", make_activation},
    {"relu", "", make_plain<Activation::relu>},
    {"leaky_relu", "slope", make_leaky_relu},
    {"sigmoid", "", make_plain<Activation::sigmoid>},
    {"tanh", "", make_plain<Activation::tanh>},
    {"gelu", "", make_plain<Activation::gelu>},
    {"silu", "", make_plain<Activation::silu>, {"swish"}},
    {"softplus", "", make_plain<Activation::softplus>},
    {"softmax", "", make_softmax},
    {"sequential", "layers", nullptr},
    {"residual", "body", nullptr},
    {"concat", "branches", nullptr, {"concatenate"}},
    {"multiply", "branches", nullptr},
    {"repeat", "", nullptr},
};

std::string plain_form(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

const LayerType* find_type(std::string_view canonical) {
  const auto* found = std::find_if(std::begin(types), std::end(types),
                                   [&](const LayerType& t) { return t.name == canonical; });
  return found == std::end(types) ? nullptr : found;
}

}  // namespace

std::string canonical_layer_type(std::string_view text) {
  const std::string plain = plain_form(text);
  if (plain.empty()) return {};
  for (const LayerType& type : types) {
    const auto& synonyms = type.synonyms;
    if (plain == plain_form(type.name) ||
        std::find(synonyms.begin(), synonyms.end(), plain) != synonyms.end()) {
      return std::string(type.name);
    }
  }
  return {};
}

std::vector<std::string> layer_type_names() {
  std::vector<std::string> names;
  for (const LayerType& type : types) names.emplace_back(type.name);
  return names;
}

std::string_view short_setting_of(std::string_view type) {
  const LayerType* found = find_type(type);
  return found ? found->short_setting : std::string_view();
}

MadeLayer make_layer(std::string_view type, LayerArguments& arguments,
                     const LayerContext& context) {
  const LayerType* found = find_type(type);
  if (!found || !found->make) {
    fail(ErrorKind::internal, "make_layer: '{}' is a container or unknown", type);
  }
  return found->make(arguments, context);
}

}  // namespace whisker
