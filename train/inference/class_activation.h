// Where in an image a network sees a class.
#pragma once

#include "core/tensor/tensor.h"
#include "data/codec/image.h"
#include "data/transforms/preprocess.h"
#include "train/model/network.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace whisker {

/// A class-activation map, row by row; from 0 to 1, all 0 where nothing speaks for the class.
struct ActivationMap {
  int height = 0;
  int width = 0;
  std::vector<float> values;  // (height, width)
};

/// The map of the class in `classes` (N) for each row of `inputs` (N, H, W, C), by Grad-CAM
/// (Selvaraju et al. 2017) on the last values that still have rows and columns, or are tokens of
/// patches (then those that enter the last block). Before a global average and one linear layer
/// these are the class-activation maps of Zhou et al. 2016. Throws usage for a network that has no
/// such values.
std::vector<ActivationMap> class_activation_maps(const Network& network, const Tensor& inputs,
                                                 std::span<const int64_t> classes);

/// `image` as the network sees it: resized and cropped by `preprocess`, not normalised.
Image seen_image(const Preprocess& preprocess, const Image& image);
/// The image that a network's input (H, W, C) in f32 is, its normalisation undone.
Image seen_image(const Normalisation& normalisation, const Tensor& input);
/// `seen` with `map` over it as a transparent layer: the stronger, the brighter.
Image with_heat(Image seen, const ActivationMap& map);
/// The map over the image itself, of which the network sees what `preprocess` leaves: the rest is
/// dark.
Image with_heat(Image image, const ActivationMap& map, const Preprocess& preprocess);

/// The value that goes into the layer which decides the class, averaged over rows and columns:
/// the list of layers up to its `end`.
size_t embedding_layer(const Network& network);
/// values (N, ...) as (N, C), f32: the mean over what is between.
Tensor pooled(const Tensor& values);

}  // namespace whisker
