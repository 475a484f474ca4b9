// Layers without layers inside, made from their settings in a model file.
#pragma once

#include "layers/builder/layer_arguments.h"
#include "layers/module.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// What turns a classifier's last values into probabilities. Losses work on the values before it,
/// so it is not a layer of the network.
enum class OutputKind : uint8_t { softmax, sigmoid };

/// What flows into a layer.
struct Flow {
  Shape shape;
  int64_t flattened_channels = 0;  ///< of the image behind a flatten, see Parameter
  Shape patches = {};  ///< behind a class_token: the image (N,H,W,C) before it; else rank 0

  /// Its last extent; 0 without one, which the layers refuse.
  int64_t channels() const { return shape.rank() > 0 ? shape[-1] : 0; }
};

struct LayerContext {
  Flow flow;
  int64_t classes = 0;       ///< value of the word `classes` for filters and units; 0: not known
  int64_t vocabulary = 0;    ///< value of the word `vocabulary` for an embedding; 0: not known
  bool keras_start = false;  ///< initial values are Keras', not PyTorch's
  bool tail = false;         ///< the model's last layer
  double width = 1;          ///< multiplies the filters of convolutions
  int64_t grid = 0;          ///< rows and columns of position embeddings; 0: those of the image
};

struct MadeLayer {
  std::shared_ptr<Module> module = {};    ///< null: only `output` was said
  std::optional<OutputKind> output = {};  ///< of the tail
  bool head = false;                      ///< its extent is `classes`
  std::string unused = {};  ///< a setting without effect: "dropout has no effect: ..."
};

/// "conv2d" for Conv2D, conv_2d, Convolution2D, ...; "" for an unknown type.
std::string canonical_layer_type(std::string_view text);
/// Every type that a model file can hold, containers included.
std::vector<std::string> layer_type_names();
/// The setting that a value without a map stands for: "rate" of `dropout: 0.5`; "" for none.
std::string_view short_setting_of(std::string_view type);

/// Makes a layer of a canonical type that is no container. Throws usage with the place.
MadeLayer make_layer(std::string_view type, LayerArguments& arguments, const LayerContext& context);

}  // namespace whisker
