// A recorded tape as an image: Graphviz DOT, Mermaid, and SVG laid out by
// core/trace/graph_layout.h.
#pragma once

#include "core/trace/recording.h"

#include <string>
#include <string_view>

namespace whisker {

/// The recording as a Graphviz digraph, its title above it.
std::string tape_dot(const Recording& recording);

/// The recording as a flow chart of Mermaid.
std::string tape_mermaid(const Recording& recording);

/// The recording as an SVG document: operators as boxes with number, layer, output shape and, where
/// computed, the norm of the gradient; parameters beside the operator that uses them, a legend
/// below. A small graph fits a slide of 1280x720 px.
std::string tape_svg(const Recording& recording);

/// Whether one of these made the content, by the comment in it, and nobody changed it.
bool is_tape_dot(std::string_view content);
bool is_tape_mermaid(std::string_view content);
bool is_tape_svg(std::string_view content);

}  // namespace whisker
