// The page of `whisker study graph -o FILE.html`.
#pragma once

#include "core/trace/recording.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace whisker {

inline constexpr size_t most_page_bytes = 2'000'000;

struct GraphPage {
  std::string text;
  std::string left_out;  ///< what the text has not for its size, as it says; "" when all is there
};

/// One HTML file without references to others: the operators of the step forward and backward, and
/// their values and gradients one after the other. Of values it has as many as fit into
/// most_page_bytes. Throws usage when the operators alone do not fit.
GraphPage graph_page(const Recording& recording);

/// Whether a file's content is such a page, unchanged.
bool is_graph_page(std::string_view content);

/// The style and script of apps/study/page, in a source that the build makes.
std::string_view graph_page_style();
std::string_view graph_page_script();
std::span<const uint8_t> graph_page_script_hash();  ///< SHA-256

}  // namespace whisker
