// The frame of HTML pages that stand alone: no script, no reference to anything, one style.
#pragma once

#include <string>
#include <string_view>

namespace whisker {

/// From <!DOCTYPE to <body>. `mark` says which command writes the page: see
/// core/io/checksum_mark.h. The style has --back and the other colors of page_colors(), cards in
/// grids (ul.cards, .card) and tables; `rules` are added to it.
std::string begin_page(std::string_view mark, std::string_view title, std::string_view rules = "");

/// Closes what begin_page() opened and fills in the checksum.
std::string finished_page(std::string page, std::string_view mark);

/// Whether a file's content is a page of this mark, unchanged.
bool is_page(std::string_view content, std::string_view mark);

}  // namespace whisker
