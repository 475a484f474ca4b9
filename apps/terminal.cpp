// ANSI colours and the terminal's width.
#include "apps/terminal.h"

#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

namespace whisker {
namespace {

enum class Choice { automatic, always, never };
Choice color_choice = Choice::automatic;

bool shows_color(std::FILE* stream) {
  if (color_choice != Choice::automatic) return color_choice == Choice::always;
  const char* no_color = std::getenv("NO_COLOR");
  return !(no_color && *no_color) && is_terminal(stream);
}

}  // namespace

void set_color(std::string_view choice) {
  color_choice = choice == "always"  ? Choice::always
                 : choice == "never" ? Choice::never
                                     : Choice::automatic;
}

std::string paint(std::FILE* stream, std::string_view text, Color color) {
  static constexpr const char* codes[] = {"", "31", "32", "33", "2", "1"};
  if (color == Color::none || !shows_color(stream)) return std::string(text);
  return "\033[" + std::string(codes[static_cast<int>(color)]) + "m" + std::string(text) +
         "\033[0m";
}

void tell(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

bool is_terminal(std::FILE* stream) {
  return isatty(fileno(stream)) == 1;
}

int terminal_width() {
  winsize size{};
  return ioctl(fileno(stderr), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace whisker
