// A recorded tape as an image: Graphviz DOT, and SVG laid out by core/trace/graph_layout.h.
#pragma once

#include "core/trace/tape_listing.h"

#include <string>
#include <string_view>

namespace whisker {

/// The listing as a Graphviz digraph. `title` is shown above it.
std::string tape_dot(const TapeListing& listing, const std::string& title);

/// The listing as an SVG document: operators as boxes with number, layer, output shape and, where
/// computed, the norm of the gradient; parameters beside the operator that uses them.
std::string tape_svg(const TapeListing& listing, const std::string& title);

/// Whether one of these made the content, by the comment in it, and nobody changed it.
bool is_tape_dot(std::string_view content);
bool is_tape_svg(std::string_view content);

}  // namespace whisker
