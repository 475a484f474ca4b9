#include "train/report/run_report.h"

#include "core/draw/markup.h"
#include "core/draw/page.h"
#include "core/error.h"
#include "core/io/atomic_file.h"
#include "core/io/text.h"
#include "train/report/report_sections.h"

#include <cmath>
#include <system_error>

namespace whisker {
namespace {

constexpr std::string_view mark = "whisker report";
constexpr size_t largest_report = size_t{64} << 20;

// Nobody scrolls on paper: tables and matrices are as narrow as it there.
constexpr std::string_view rules = R"css(.sentence { font-size: 1.15rem; max-width: 60rem; }
.problem { color: var(--wrong); }
.charts { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(min(420px, 100%), 1fr)); }
.charts svg { width: 100%; height: auto; max-width: 560px; border: 1px solid var(--line); border-radius: 8px; }
.card svg { width: 100%; height: auto; }
td svg { width: 16rem; height: auto; }
.scroll { overflow-x: auto; max-width: 100%; }
.scroll svg { border: 1px solid var(--line); border-radius: 8px; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .7rem;
  white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.4 ui-monospace, Menlo, Consolas, monospace; }
td.value { white-space: pre-wrap; overflow-wrap: anywhere; min-width: 13rem; }
summary { cursor: pointer; margin: .4rem 0; }
nav a { color: var(--c0); margin-right: 1rem; white-space: nowrap; display: inline-block; }
ul.samples { list-style: none; margin: 0; padding: 0; display: grid; gap: .6rem;
  grid-template-columns: repeat(auto-fill, minmax(110px, 1fr)); }
.samples img { width: 100%; height: auto; border-radius: 4px; display: block; }
.bar { display: inline-block; height: .7rem; margin-right: .6rem; background: var(--c0); }
.sized { white-space: nowrap; }
ul.cards + ul.cards { margin-top: 2rem; }
@media print {
  nav { display: none; }
  .scroll { overflow: visible; }
  .scroll svg { max-width: 100%; height: auto; }
  .scroll table { font-size: .8rem; }
  .scroll td, .scroll th, .sized { overflow-wrap: anywhere; white-space: normal; min-width: 0; }
}
)css";

// The ids and headings of the sections.
std::string navigation(std::string_view html) {
  constexpr std::string_view begin = "<section aria-labelledby=\"";
  std::string text = "<nav aria-label=\"sections\">\n";
  for (size_t at = html.find(begin); at != html.npos; at = html.find(begin, at + 1)) {
    const size_t id = at + begin.size(), heading = html.find("\">", html.find("<h2", at)) + 2;
    text += fmt::format("<a href=\"#{}\">{}</a>\n", html.substr(id, html.find('"', id) - id),
                        html.substr(heading, html.find('<', heading) - heading));
  }
  return text + "</nav>\n";
}

}  // namespace

std::string report_section(std::string_view id, std::string_view heading, std::string_view html) {
  return fmt::format("<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n{2}</section>\n",
                     id, heading, html);
}

std::string report_note(std::string_view text) {
  return fmt::format("<p class=\"lead\">{}</p>\n", markup(text));
}

std::string small_chart(const std::string& title, const std::string& x, const std::string& y,
                        std::vector<ChartSeries> series, std::vector<ChartMark> marks) {
  return chart_svg({.title = title,
                    .x = {.label = x},
                    .y = {.label = y},
                    .series = std::move(series),
                    .marks = std::move(marks),
                    .width = 400,
                    .height = 290});
}

std::string charts_html(std::string_view charts) {
  return fmt::format("<div class=\"charts\">\n{}</div>\n", charts);
}

std::string percent_text(double fraction) {
  return std::isfinite(fraction) ? fmt::format("{:.1f} %", 100 * fraction) : "not measured";
}

std::string examples_text(int64_t count, std::string_view of) {
  const bool one = count == 1 && of.ends_with('s');
  return std::string(one ? of.substr(0, of.size() - 1) : of);
}

std::string run_report(const RunRecord& run) {
  std::string body;
  for (const auto section :
       {curves_section, forecast_section, confusion_section, per_class_section, calibration_section,
        roc_section, mistakes_section, samples_section, time_section, data_section, config_section,
        environment_section, commands_section}) {
    body += section(run);
  }
  return report_page("Run " + run.name, verdict_section(run), body);
}

std::string report_page(std::string_view title, std::string_view lead, std::string_view sections,
                        std::string_view page_mark) {
  return finished_page(fmt::format("{}<header>\n<h1>{}</h1>\n{}{}</header>\n<main>\n{}</main>\n",
                                   begin_page(page_mark, title, rules), markup(title), lead,
                                   navigation(sections), sections),
                       page_mark);
}

bool is_run_report(std::string_view content) {
  return is_page(content, mark);
}

void write_run_report(const std::filesystem::path& run, const std::filesystem::path& file,
                      bool force) {
  std::error_code error;
  if (!force && std::filesystem::exists(std::filesystem::symlink_status(file, error)) &&
      !is_run_report(read_file(file, largest_report, ErrorKind::usage))) {
    fail(ErrorKind::usage,
         "{}: exists and is no report, or was edited since. Move it elsewhere, or add --force to "
         "whisker report to replace it.",
         printable(file.string()));
  }
  write_file_atomically(file, run_report(read_run_record(run)));
}

}  // namespace whisker
