// What the program knows of the terminal: whether to colour, and how wide it is.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace whisker {

enum class Color { none, red, green, yellow, dim, bold };

/// `choice` is auto, always or never; NO_COLOR (https://no-color.org) counts unless always.
void set_color(std::string_view choice);

/// `text` in `color`, when `stream` shows colours.
std::string paint(std::FILE* stream, std::string_view text, Color color);

/// Writes to stderr. A full or closed stderr loses the text, never the run.
void tell(std::string_view text);

bool is_terminal(std::FILE* stream);
/// Columns of the terminal behind stderr; 80 when unknown.
int terminal_width();

}  // namespace whisker
