#include "core/draw/page.h"

#include "core/draw/markup.h"
#include "core/io/checksum_mark.h"

#include <fmt/format.h>

namespace whisker {
namespace {

constexpr std::string_view before_mark = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content=")html";

constexpr std::string_view after_mark = R"html(">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; )html";

constexpr std::string_view style = R"css(* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1500px; overflow-wrap: break-word; padding: 1.5rem; background: var(--back); color: var(--text);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .8rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .6rem; }
p { margin: .15rem 0; }
.lead, .path { color: var(--soft); }
ul.cards { list-style: none; margin: 0; padding: 0; display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(300px, 100%), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .7rem; overflow: hidden; }
.card.wrong { border-left: 4px solid var(--wrong); }
.card.right { border-left: 4px solid var(--right); }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: .4rem; margin-bottom: .5rem; }
.pair img { width: 100%; height: auto; border-radius: 4px; display: block; }
.verdict span { color: var(--wrong); }
.right .verdict span { color: var(--right); }
.path { font-size: .82rem; overflow-wrap: anywhere; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; border-bottom: 1px solid var(--line);
  padding-bottom: .5rem; margin-bottom: .5rem; }
table { border-collapse: collapse; background: var(--card); }
th, td { border: 1px solid var(--line); padding: .3rem .7rem; text-align: left; }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
@media print { .card, svg { break-inside: avoid; } }
)css";

}  // namespace

std::string page_head(std::string_view mark, std::string_view title, std::string_view allowed,
                      std::string_view rules) {
  return fmt::format("{}{}{}{}\">\n<title>{}</title>\n<style>\n{}{}</style>\n</head>\n<body>\n",
                     before_mark, checksum_mark(mark), after_mark, allowed, markup(title),
                     page_colors(), rules);
}

std::string begin_page(std::string_view mark, std::string_view title, std::string_view rules) {
  return page_head(mark, title, "img-src data:", fmt::format("{}{}", style, rules));
}

std::string finished_page(std::string page, std::string_view mark) {
  page += "</body>\n</html>\n";
  set_checksum(page, mark);
  return page;
}

bool is_page(std::string_view content, std::string_view mark) {
  return content.starts_with(before_mark) && checksum_matches(content, mark);
}

}  // namespace whisker
