// Tables of HTML pages. Text is escaped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// In a box that scrolls sideways where the table is wider than the page. Cells follow row() from
/// left to right.
class HtmlTable {
 public:
  /// `heads`: of the columns; none for names and their values.
  explicit HtmlTable(const std::vector<std::string>& heads = {});

  HtmlTable& row();
  HtmlTable& name(std::string_view text);  ///< the row's heading
  HtmlTable& text(std::string_view text);
  HtmlTable& lines(std::string_view text);   ///< with its line breaks
  HtmlTable& number(std::string_view text);  ///< to the right
  HtmlTable& html(std::string_view html);    ///< as it is
  std::string str() const;

 private:
  std::string html_;
  bool in_row_ = false;
};

}  // namespace whisker
