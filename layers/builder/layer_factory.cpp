// One function per layer: read settings, fill options. Keys are Keras' with PyTorch's as synonyms.
#include "layers/builder/layer_factory.h"

#include "core/io/lower_ascii.h"
#include "layers/builder/shared_settings.h"
#include "layers/layers.h"

#include <algorithm>
#include <array>

namespace whisker {
namespace {

/// Refuses a layer whose parameter would be in another order than in weights files.
void refuse_behind_flatten(const char* layer, const LayerContext& context) {
  if (context.flow.flattened_channels == 0) return;
  fail(ErrorKind::usage,
       "behind a flatten, features are in another order in weights files, where channels come "
       "first. Put {} before the flatten.",
       layer);
}

MadeLayer make_conv2d(LayerArguments& arguments, const LayerContext& context) {
  const Extent filters = read_filters(arguments.required({"filters", "out_channels"}), context);
  const YamlNode* groups = arguments.find({"groups"});
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
      .groups = groups ? read_extent(*groups, context).value : 1,
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

MadeLayer make_global_max_pool2d(LayerArguments&, const LayerContext&) {
  return {std::make_shared<GlobalMaxPool2D>()};
}

MadeLayer make_blur_pool2d(LayerArguments& arguments, const LayerContext&) {
  const BlurPool2D::Options options{
      .kernel = arguments.integer({"kernel", "kernel_size"}, {.min = 2, .max = 7}, 3),
      .stride = arguments.integer({"strides", "stride"}, {.min = 1, .max = 64}, 2)};
  return {std::make_shared<BlurPool2D>(options)};
}

// The input, times factors of its channels that two 1x1 convolutions make of their averages.
MadeLayer make_squeeze_excite(LayerArguments& arguments, const LayerContext& context) {
  const int64_t channels = context.flow.channels();
  const int64_t units = read_extent(arguments.required({"units"}), context).value;
  const YamlNode *activation = arguments.find({"activation"}), *gate = arguments.find({"gate"});
  const auto convolution = [&](int64_t from, int64_t to) {
    return std::make_shared<Conv2D>(
        Conv2D::Options{.in_channels = from,
                        .filters = to,
                        .kernel = 1,
                        .weight_initializer = weight_start(arguments, context),
                        .bias_initializer = bias_start(arguments, context)});
  };
  const auto add_activation = [](Sequential& layers, ActivationSpec f, const char* name) {
    layers.add_named(name, std::make_shared<ActivationLayer>(f));
  };
  const auto factors = std::make_shared<Sequential>();
  factors->add_named("average", std::make_shared<AdaptiveAvgPool2D>(1));
  factors->add_named("fc1", convolution(channels, units));
  add_activation(*factors,
                 activation ? read_activation(*activation) : ActivationSpec{Activation::relu},
                 "activation");
  factors->add_named("fc2", convolution(units, channels));
  add_activation(*factors, gate ? read_activation(*gate) : ActivationSpec{Activation::sigmoid},
                 "gate");
  return {std::make_shared<Multiply>(
      std::vector<Branches::Branch>{{"", std::make_shared<Sequential>()}, {"", factors}})};
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

MadeLayer make_drop_path(LayerArguments& arguments, const LayerContext&) {
  return {std::make_shared<DropPath>(
      arguments.required({"rate", "p"}).as_double({.min = 0, .max = 0.999}))};
}

MadeLayer make_layer_scale(LayerArguments& arguments, const LayerContext& context) {
  refuse_behind_flatten("layer_scale", context);
  return {std::make_shared<LayerScale>(
      LayerScale::Options{.channels = context.flow.channels(),
                          .initial = arguments.number({"initial"}, {.min = 0, .max = 10}, 1e-6)})};
}

MadeLayer make_multi_head_attention(LayerArguments& arguments, const LayerContext& context) {
  using Names = MultiHeadAttention::Names;
  Names names = Names::pytorch;
  if (const YamlNode* node = arguments.find({"names"})) {
    if (node->text() != "pytorch" && node->text() != "timm") node->fail_expected("pytorch or timm");
    if (node->text() == "timm") names = Names::timm;
  }
  return {std::make_shared<MultiHeadAttention>(MultiHeadAttention::Options{
      .channels = context.flow.channels(),
      .heads = arguments.required({"heads", "num_heads"}).as_int({.min = 1, .max = most_channels}),
      .dropout = arguments.number({"dropout"}, {.min = 0, .max = 0.999}, 0),
      .bias = arguments.boolean({"use_bias", "bias"}, true),
      .names = names})};
}

int64_t token_count(LayerArguments& arguments) {
  constexpr int64_t most_tokens = 1024;
  return arguments.integer({"count"}, {.min = 1, .max = most_tokens}, 1);
}

MadeLayer make_class_token(LayerArguments& arguments, const LayerContext& context) {
  return {std::make_shared<ClassToken>(context.flow.channels(), token_count(arguments))};
}

MadeLayer make_position_embedding(LayerArguments& arguments, const LayerContext& context) {
  const bool tokens = context.flow.patches.rank() == 4;
  const Shape& image = tokens ? context.flow.patches : context.flow.shape;
  if (image.rank() != 4) {
    fail(ErrorKind::usage, "position_embedding: expected images (N,H,W,C), got {}", image);
  }
  const Pair extents{image[1], image[2]};
  const int64_t before = tokens ? context.flow.shape[2] - image[1] * image[2] : 0;
  const Pair usual = context.grid > 0 ? Pair{context.grid, context.grid} : extents;
  return {std::make_shared<PositionEmbedding>(
      PositionEmbedding::Options{.channels = context.flow.channels(),
                                 .grid = arguments.pair({"grid"}, 1).value_or(usual),
                                 .image = extents,
                                 .tokens = before})};
}

MadeLayer make_first_token(LayerArguments& arguments, const LayerContext&) {
  return {std::make_shared<FirstToken>(token_count(arguments))};
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
  MadeLayer made{std::make_shared<Recurrent>(options), {}, units.head};
  if (options.dropout > 0 && options.layers == 1) {
    made.unused =
        "dropout has no effect: it acts between `layers`, and there is one. Set layers: 2, or "
        "put a dropout layer behind it";
  }
  return made;
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
  MadeLayer made{std::make_shared<Softmax>()};
  if (context.flow.channels() == 1) made.unused = "softmax over one unit is always 1";
  return made;
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
    {"global_max_pool2d", "", make_global_max_pool2d, {"globalmaxpooling2d", "globalmaxpool"}},
    {"blur_pool2d", "kernel", make_blur_pool2d, {"blurpool"}},
    {"batch_norm", "", make_batch_norm, {"batchnormalization", "batchnorm2d", "batchnorm1d"}},
    {"layer_norm", "", make_layer_norm, {"layernormalization"}},
    {"group_norm", "groups", make_group_norm, {"groupnormalization"}},
    {"dropout", "rate", make_dropout},
    {"drop_path", "rate", make_drop_path, {"stochasticdepth"}},
    {"layer_scale", "initial", make_layer_scale},
    {"multi_head_attention", "heads", make_multi_head_attention, {"multiheadattention"}},
    {"class_token", "count", make_class_token},
    {"position_embedding", "grid", make_position_embedding},
    {"first_token", "count", make_first_token},
    {"squeeze_excite", "units", make_squeeze_excite, {"squeezeexcitation"}},
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
    {"relu6", "", make_plain<Activation::relu6>},
    {"hard_sigmoid", "", make_plain<Activation::hard_sigmoid>},
    {"hard_swish", "", make_plain<Activation::hard_swish>},
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
    if (c != '_') plain += lower_ascii(c);
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
