// The page of `whisker evaluate --worst`.
#pragma once

#include "apps/commands/evaluated_images.h"
#include "train/model/network.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// One HTML file without scripts and without references to others: the `count` images of the
/// largest loss and the pairs of classes most often mistaken for each other, as the network sees
/// them and with the class-activation maps of the predicted class.
std::string worst_page(const Network& network, std::vector<EvaluatedImage> images, size_t count,
                       const std::string& weights);

/// Whether a file's content is such a page, unchanged.
bool is_worst_page(std::string_view content);

}  // namespace whisker
