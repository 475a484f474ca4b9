// The page of `whisker evaluate --worst`.
#pragma once

#include "apps/commands/evaluated_examples.h"
#include "train/model/network.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// One HTML file without scripts and without references to others: the `count` examples of the
/// largest loss and the pairs of classes most often mistaken for each other. Images are as the
/// network sees them, beside the class-activation maps of the predicted class.
std::string worst_page(const Network& network, std::vector<EvaluatedExample> examples, size_t count,
                       const std::string& weights);

/// Whether a file's content is such a page, unchanged.
bool is_worst_page(std::string_view content);

}  // namespace whisker
