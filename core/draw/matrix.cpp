#include "core/draw/matrix.h"

#include "core/draw/markup.h"
#include "core/error.h"
#include "core/io/utf8.h"

#include <algorithm>
#include <array>

namespace whisker {
namespace {

constexpr size_t most_numbered = 20, most_named = 50, most_letters = 18;
constexpr double name_font = 10;

// "a very long cla…"
std::string short_class_name(const std::string& name) {
  std::string text = printable(name);
  if (count_code_points(text) <= most_letters) return text;
  size_t end = 0;
  for (size_t i = 0; i + 1 < most_letters; ++i) end += utf8_sequence_length(text.substr(end, 4));
  return text.substr(0, end) + "…";
}

// A count in at most five letters: "831", "12k".
std::string short_count(int64_t count) {
  if (count < 100'000) return fmt::format("{}", count);
  if (count < 10'000'000) return fmt::format("{}k", count / 1000);
  return fmt::format("{}M", count / 1'000'000);
}

double cell_size(size_t classes) {
  if (classes <= 4) return 64;
  if (classes <= most_numbered) return 36;
  return classes <= most_named ? 13 : std::max(3.0, 640 / static_cast<double>(classes));
}

}  // namespace

std::string matrix_svg(const Matrix& matrix) {
  const size_t n = matrix.classes.size();
  if (matrix.counts.size() != n * n) {
    fail(ErrorKind::internal, "matrix_svg: {} classes, {} counts", n, matrix.counts.size());
  }
  const double cell = cell_size(n);
  std::vector<std::string> names;
  double longest = 30;
  for (const std::string& name : matrix.classes) {
    if (n > most_named) break;
    names.push_back(short_class_name(name));
    longest = std::max(longest, text_width(names.back(), name_font));
  }
  const double left = longest + 34, top = 52 + (n <= 4 ? 14 : longest);
  const double side = cell * static_cast<double>(n);
  const auto at = [&](size_t i) { return cell * static_cast<double>(i); };
  constexpr SvgRule rules[] = {{".on", "fill: #fff", "fill: #14171d"},
                               {".name", "font-size: 10px", ""}};
  std::string text = svg_begin({.width = std::max(left + side + 20, 260.0),
                                .height = top + side + 18,
                                .title = matrix.title,
                                .rules = svg_rules(rules)});
  text += fmt::format(
      "<text class=\"start quiet\" x=\"{0:.1f}\" y=\"16\">predicted</text>\n"
      "<text class=\"quiet\" transform=\"rotate(-90 14 {1:.1f})\" x=\"14\" y=\"{1:.1f}\">label"
      "</text>\n<rect class=\"edge\" x=\"{0:.1f}\" y=\"{2:.1f}\" width=\"{3:.1f}\" "
      "height=\"{3:.1f}\"/>\n",
      left, top + side / 2, top, side);
  // Cells of one shade are one path, so that 40,000 cells stay small.
  constexpr size_t shades = 10;
  std::array<std::string, 2 * shades> paths;
  std::string numbers;
  for (size_t row = 0; row < n; ++row) {
    const auto counts = std::span(matrix.counts).subspan(row * n, n);
    int64_t all = 0;
    for (const int64_t count : counts) all += count;
    for (size_t column = 0; column < n; ++column) {
      if (counts[column] == 0) continue;
      const double part = static_cast<double>(counts[column]) / static_cast<double>(all);
      const auto shade = std::min(static_cast<size_t>(part * shades), shades - 1);
      paths[(row == column ? 0 : shades) + shade] += fmt::format("M{} {}h1v1h-1z", column, row);
      if (n > most_numbered) continue;
      numbers += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                             shade >= shades / 2 ? "on" : "", left + at(column) + cell / 2,
                             top + at(row) + cell / 2 + 4, short_count(counts[column]));
    }
  }
  text += fmt::format("<g transform=\"translate({:.1f} {:.1f}) scale({})\">\n", left, top, cell);
  for (size_t i = 0; i < paths.size(); ++i) {
    if (paths[i].empty()) continue;
    text +=
        fmt::format("<path class=\"c{}\" fill-opacity=\"{:.2f}\" d=\"{}\"/>\n", i < shades ? 0 : 1,
                    0.1 + 0.09 * static_cast<double>(i % shades + 1), paths[i]);
  }
  text += "</g>\n" + numbers;
  size_t every = 1;
  for (const unsigned step : {10U, 20U, 50U, 100U}) {
    if (n > most_named && every * 12 < n) every = step;
  }
  for (size_t i = every == 1 ? 0 : every - 1; i < n; i += every) {
    const std::string name = names.empty() ? fmt::format("{}", i + 1) : markup(names[i]);
    const double x = left + at(i) + cell / 2, y = top + at(i) + cell / 2;
    text += fmt::format("<text class=\"end name\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", left - 6,
                        y + 3.5, name);
    text += n <= 4 ? fmt::format("<text class=\"name\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x,
                                 top - 8, name)
                   : fmt::format(
                         "<text class=\"start name\" transform=\"rotate(-90 {0:.1f} "
                         "{1:.1f})\" x=\"{0:.1f}\" y=\"{1:.1f}\">{2}</text>\n",
                         x + 3.5, top - 6, name);
  }
  return text + "</svg>\n";
}

}  // namespace whisker
