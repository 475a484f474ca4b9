// Output to stderr, and the terminal's properties: colours and width.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace whisker {

/// `choice` is auto, always or never; NO_COLOR (https://no-color.org) is respected unless always.
void set_color(std::string_view choice);

/// Writes text to stderr, escaped (core/io/text.h): only indented lines may follow its first one.
/// When stderr is full or closed, the text is lost and the run continues.
void tell(std::string_view text);
/// "whisker: error: " and the message, which ends without a line break.
void tell_error(std::string_view message);
/// Shows a line on the terminal until the next one replaces it; "" removes it.
void show_bar(std::string_view line);

bool is_terminal(std::FILE* stream);
/// Columns of the terminal behind `stream`; 80 when there is none.
int terminal_width(std::FILE* stream);
/// The width of a table on stdout: the terminal's columns; 0, without limit, where it is none.
size_t table_width();

}  // namespace whisker
