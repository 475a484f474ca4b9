// What SVG images and HTML pages have in common: escaped text, its width, and colours that are told
// apart without colour vision (after Okabe and Ito 2008, "Color universal design"), light and dark.
#pragma once

#include "core/io/text.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace whisker {

/// Foreign text for an element or a quoted attribute of SVG or HTML: printable(), then escaped.
/// Without line breaks it is a name or a sentence: of more than 1,000 characters the middle is left
/// out.
std::string markup(std::string_view text, KeptLines kept = KeptLines::none);

/// Px that a line of SVG text is wide in the monospaced font of svg_begin(), at least.
double text_width(std::string_view text, double font_size);

/// RFC 4648.
std::string base64(std::span<const uint8_t> bytes);

/// The rules ":root { --back: ...; }" of a page: --back, --card, --text, --soft, --line, --wrong,
/// --right, and --c0 to --c7 of series_color(). Dark where the reader's system is, light in print.
std::string page_colors();

struct Color {
  std::string_view light, dark;
};
/// The color of the i-th curve, area or kind of point; colors repeat after eight.
Color series_color(size_t i);

/// A colour of an SVG image: `selector` gets the declarations, `dark` where the reader's system is.
struct SvgRule {
  std::string_view selector, declarations, dark;
};

struct SvgHead {
  double width = 0, height = 0;   ///< px of the drawing
  std::string_view title;         ///< what screen readers say of it
  std::string_view rules;         ///< of svg_rules()
  std::string_view comment = {};  ///< behind <svg ...>: "<!-- ... -->"
  double shown = 1;               ///< the image's size, relative to the drawing
};
/// Rules within an image of svg_begin().
std::string svg_rules(std::span<const SvgRule> rules);
/// From <svg to the background. Classes: title, quiet (text), start, end (the anchor; else middle),
/// edge (a line), c0 to c7 (fill), s0 to s7 (stroke). Several images may stand in one page.
std::string svg_begin(const SvgHead& head);

}  // namespace whisker
