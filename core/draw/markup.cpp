#include "core/draw/markup.h"

#include "core/io/utf8.h"

#include <array>

#include <fmt/format.h>

namespace whisker {
namespace {

constexpr std::array<Color, 8> series_colors = {{{"#0072b2", "#56b4e9"},
                                                 {"#c85200", "#f39a5b"},
                                                 {"#00805d", "#3fcf9f"},
                                                 {"#a0457e", "#e6a0c8"},
                                                 {"#8a6d00", "#f0e442"},
                                                 {"#5c6a78", "#a6aebd"},
                                                 {"#5b3fa8", "#b39ddb"},
                                                 {"#7a2e1d", "#d98c7a"}}};

// Declared once in an image, whose classes a page with several images shares.
std::string base_rules() {
  constexpr SvgRule rules[] = {
      {"text",
       "font: 11px \"DejaVu Sans Mono\", Menlo, Consolas, monospace; text-anchor: middle; "
       "fill: #1c2733",
       "fill: #e8ebf1"},
      {".title", "font-size: 17px; font-weight: bold; text-anchor: start", ""},
      {".quiet", "fill: #566370", "fill: #a6aebd"},
      {".start", "text-anchor: start", ""},
      {".end", "text-anchor: end", ""},
      {".back", "fill: #fff", "fill: #14171d"},
      {".grid", "stroke: #dfe3e8; fill: none", "stroke: #2d3440"},
      {".edge", "fill: none; stroke: #5c6a78; stroke-width: 1.3", "stroke: #a6aebd"},
      {".head", "fill: #5c6a78", "fill: #a6aebd"}};
  std::string text = svg_rules(rules);
  for (size_t i = 0; i < series_colors.size(); ++i) {
    const auto& [light, dark] = series_colors[i];
    const std::array<std::string, 6> parts = {
        fmt::format(".c{}", i), fmt::format("fill: {}", light),   fmt::format("fill: {}", dark),
        fmt::format(".s{}", i), fmt::format("stroke: {}", light), fmt::format("stroke: {}", dark)};
    text += svg_rules(
        std::array{SvgRule{parts[0], parts[1], parts[2]}, SvgRule{parts[3], parts[4], parts[5]}});
  }
  return text;
}

}  // namespace

std::string markup(std::string_view text, KeptLines kept) {
  std::string shown = printable(text, kept);
  if (kept == KeptLines::none) shown = without_middle(shown, 800, 200);
  std::string escaped;
  for (const char c : shown) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

// 0.602 em is the advance of DejaVu Sans Mono, the widest of the fonts.
double text_width(std::string_view text, double font_size) {
  return static_cast<double>(count_code_points(printable(text))) * font_size * 0.602;
}

std::string base64(std::span<const uint8_t> bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (i + j < bytes.size() ? bytes[i + j] : 0u);
    for (size_t j = 0; j < 4; ++j) {
      text += i + j <= bytes.size() ? digits[bits >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

Color series_color(size_t i) {
  return series_colors[i % series_colors.size()];
}

std::string page_colors() {
  std::string light =
      "--back: #f6f7f9; --card: #fff; --text: #1c2230; --soft: #565f70;\n  "
      "--line: #d9dde5; --wrong: #b3261e; --right: #1a6b3c;";
  std::string dark =
      "--back: #14171d; --card: #1f242d; --text: #e8ebf1; --soft: #a6aebd;\n  "
      "--line: #343b48; --wrong: #ff8a80; --right: #7ddc9f;";
  for (size_t i = 0; i < series_colors.size(); ++i) {
    light += fmt::format(" --c{}: {};", i, series_colors[i].light);
    dark += fmt::format(" --c{}: {};", i, series_colors[i].dark);
  }
  return fmt::format(
      ":root {{ color-scheme: light dark; {} }}\n"
      "@media screen and (prefers-color-scheme: dark) {{ :root {{ {} }} }}\n",
      light, dark);
}

std::string svg_rules(std::span<const SvgRule> rules) {
  std::string text, dark;
  for (const SvgRule& rule : rules) {
    text += fmt::format(".drawing {} {{ {} }}\n", rule.selector, rule.declarations);
    if (rule.dark.empty()) continue;
    dark += fmt::format("  .drawing {} {{ {} }}\n", rule.selector, rule.dark);
  }
  if (dark.empty()) return text;
  return text + fmt::format("@media screen and (prefers-color-scheme: dark) {{\n{}}}\n", dark);
}

std::string svg_begin(const SvgHead& head) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"drawing\" width=\"{:.0f}\" "
      "height=\"{:.0f}\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\">\n{}<title>{}</title>\n"
      "<style>\n{}{}</style>\n"
      "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
      "markerHeight=\"7\" orient=\"auto\"><path class=\"head\" d=\"M0,0.6 L8,4 L0,7.4 L1.8,4 Z\"/>"
      "</marker></defs>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n",
      head.width * head.shown, head.height * head.shown, head.width, head.height, head.comment,
      markup(head.title), base_rules(), head.rules);
}

}  // namespace whisker
