// A single example as pages show it.
#pragma once

#include "data/codec/image.h"
#include "data/sequences/sequence_example.h"
#include "train/model/network.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

struct ShownImage {
  Image seen;  ///< resized and cropped as the network's input
  Image heat;  ///< with the class-activation map over it; empty without a class
};

/// The image in `file`, with the map of class `of_class`; below 0: none. Throws data for a file
/// that is no image, usage for a network that has no maps.
ShownImage shown_image(const Network& network, const std::filesystem::path& file,
                       int64_t of_class = -1);

/// A text, or the values of a row with the names of their columns, as `input` says. A long one is
/// cut to its beginning and end: 700 characters, 80 values.
std::string shown_text(const SequenceExample& example, const InputDescription& input);

/// Steps, from 1, and their first values, of a row that nobody reads as numbers: of more than 20
/// without names. At most 300 steps, evenly spread. Empty for other examples.
std::vector<std::pair<double, double>> shown_curve(const SequenceExample& example,
                                                   const InputDescription& input);

/// The tokens of `text` that speak most for `of_class`, or against it (below 0): the gradient of
/// its logit times the token's embedding, summed (Li et al. 2016, Visualizing and Understanding
/// Neural Models in NLP); at most `most`, the largest first. Empty for networks that do not begin
/// with an embedding.
std::vector<std::pair<std::string, double>> weightiest_tokens(const Network& network,
                                                              const std::string& text,
                                                              int64_t of_class, size_t most);

}  // namespace whisker
