#include "core/draw/html_table.h"

#include "core/draw/markup.h"

#include <fmt/format.h>

namespace whisker {

HtmlTable::HtmlTable(const std::vector<std::string>& heads)
    : html_("<div class=\"scroll\"><table>\n") {
  if (!heads.empty()) html_ += "<thead><tr>";
  for (const std::string& head : heads) {
    html_ += fmt::format("<th scope=\"col\">{}</th>", markup(head));
  }
  html_ += heads.empty() ? "<tbody>\n" : "</tr></thead>\n<tbody>\n";
}

HtmlTable& HtmlTable::row() {
  html_ += in_row_ ? "</tr>\n<tr>" : "<tr>";
  in_row_ = true;
  return *this;
}

HtmlTable& HtmlTable::name(std::string_view text) {
  html_ += fmt::format("<th scope=\"row\">{}</th>", markup(text));
  return *this;
}

HtmlTable& HtmlTable::text(std::string_view text) {
  return html(markup(text));
}

HtmlTable& HtmlTable::lines(std::string_view text) {
  html_ += fmt::format("<td class=\"value\">{}</td>", markup(text, KeptLines::all));
  return *this;
}

HtmlTable& HtmlTable::number(std::string_view text) {
  html_ += fmt::format("<td class=\"number\">{}</td>", markup(text));
  return *this;
}

HtmlTable& HtmlTable::html(std::string_view html) {
  html_ += fmt::format("<td>{}</td>", html);
  return *this;
}

std::string HtmlTable::str() const {
  return html_ + (in_row_ ? "</tr>\n" : "") + "</tbody>\n</table></div>\n";
}

}  // namespace whisker
