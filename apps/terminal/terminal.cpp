// ANSI colours and the terminal's width.
#include "apps/terminal/terminal.h"

#include "core/io/text.h"
#include "core/work_progress.h"

#include <cstdlib>
#include <string>

#include <sys/ioctl.h>
#include <unistd.h>

namespace whisker {
namespace {

enum class Choice { automatic, always, never };
Choice color_choice = Choice::automatic;

bool shows_color() {
  if (color_choice != Choice::automatic) return color_choice == Choice::always;
  const char* no_color = std::getenv("NO_COLOR");
  return !(no_color && *no_color) && is_terminal(stderr);
}

void write_raw(std::string_view text) {
  const WaitScope waits(Waiting::outside);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

void set_color(std::string_view choice) {
  color_choice = choice == "always"  ? Choice::always
                 : choice == "never" ? Choice::never
                                     : Choice::automatic;
}

void tell(std::string_view text) {
  write_raw(printable(text, KeptLines::indented));
}

void tell_error(std::string_view message) {
  constexpr std::string_view name = "whisker: error:";
  const bool color = shows_color();
  write_raw(std::string(color ? "\033[31m" : "").append(name) + (color ? "\033[0m " : " ") +
            printable(message, KeptLines::indented) + "\n");
}

void show_bar(std::string_view line) {
  write_raw("\r\033[K" + printable(line));
}

bool is_terminal(std::FILE* stream) {
  return isatty(fileno(stream)) == 1;
}

int terminal_width(std::FILE* stream) {
  winsize size{};
  return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

size_t table_width() {
  return is_terminal(stdout) ? static_cast<size_t>(terminal_width(stdout)) : 0;
}

}  // namespace whisker
