// The frame of HTML pages that stand alone: no reference to anything.
#pragma once

#include <string>
#include <string_view>

namespace whisker {

/// From <!DOCTYPE to <body>, with page_colors() and the style `rules`. `allowed` is what the page's
/// Content-Security-Policy allows besides its style.
std::string page_head(std::string_view mark, std::string_view title, std::string_view allowed,
                      std::string_view rules);

/// page_head() for pages without scripts, of one style. `mark` says which command writes the page:
/// see core/io/checksum_mark.h. The style has --back and the other colors of page_colors(), cards
/// in grids (ul.cards, .card, and .right or .wrong where that is known) and tables; `rules` are
/// added to it.
std::string begin_page(std::string_view mark, std::string_view title, std::string_view rules = "");

/// Closes what begin_page() or page_head() opened and fills in the checksum.
std::string finished_page(std::string page, std::string_view mark);

/// Whether a file's content is a page of this mark, unchanged.
bool is_page(std::string_view content, std::string_view mark);

}  // namespace whisker
