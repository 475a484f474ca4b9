#include "apps/terminal/command.h"

#include "apps/terminal/terminal.h"
#include "core/error.h"
#include "core/io/text.h"
#include "core/work_progress.h"
#include "train/device/device_choice.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace whisker {

CLI::Validator number_range(double low, double high) {
  const auto check = [low, high](const std::string& text) {
    double value = 0;
    const bool number = !text.empty() && CLI::detail::lexical_cast(text, value);
    return number && value >= low && value <= high
               ? std::string()
               : fmt::format("expected a number from {} to {}, got {}", low, high, excerpt(text));
  };
  return {check, fmt::format("FLOAT in [{} - {}]", low, high), "number_range"};
}

void set_action(CLI::App* command, Invocation& invocation, std::function<int()> action) {
  command->callback([&invocation, command, action = std::move(action)] {
    invocation.run = action;
    invocation.command = command;
  });
}

Device chosen_device(const std::string& text, const Invocation& invocation) {
  const DeviceChoice choice = choose_device(text);
  if (!choice.note.empty() && invocation.verbosity >= 0) tell(choice.note + "\n");
  return choice.device;
}

// Results go through here, so that a full disk or a closed pipe is an error and not silence.
void print_result(const std::string& result) {
  const std::string text = printable(result, KeptLines::all);
  const WaitScope waits(Waiting::outside);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    if (errno == EPIPE) throw BrokenPipe();
    fail(ErrorKind::disk, "standard output: cannot be written: {}", std::strerror(errno));
  }
}

}  // namespace whisker
