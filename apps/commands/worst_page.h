// The page of `whisker evaluate --worst`.
#pragma once

#include "apps/commands/evaluated_examples.h"
#include "data/sequences/sequence_example.h"
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

/// What the page has of a text or row: the text, or the values with the names of their columns. Of
/// a long one beginning and end: 700 characters, 80 values.
std::string shown_text(const SequenceExample& example, const Network& network);

/// Whether a file's content is such a page, unchanged.
bool is_worst_page(std::string_view content);

}  // namespace whisker
