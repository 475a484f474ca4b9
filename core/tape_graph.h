// A recorded tape as a picture: Graphviz DOT, and SVG of our own layout (core/graph_layout.h).
#pragma once

#include "core/tape_listing.h"

#include <string>

namespace whisker {

/// The listing as a Graphviz digraph. `title` is shown above it.
std::string tape_dot(const TapeListing& listing, const std::string& title);

/// The listing as an SVG document: operators as boxes with number, layer, output shape and, where
/// computed, the norm of the gradient; parameters beside the operator that uses them.
std::string tape_svg(const TapeListing& listing, const std::string& title);

}  // namespace whisker
