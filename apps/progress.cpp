// Lines and bars.
#include "apps/progress.h"

#include "apps/process_time.h"
#include "apps/start_report.h"
#include "apps/terminal.h"

#include <algorithm>

namespace whisker {
namespace {

using Clock = std::chrono::steady_clock;

std::string bar_text(double share, size_t width) {
  const auto filled = static_cast<size_t>(share * static_cast<double>(width));
  return std::string(filled, '=') + (filled < width ? ">" : "") +
         std::string(width - std::min(width, filled + 1), ' ');
}

// The stage after the training step itself that took longest, when it took a fifth or more of an
// epoch worth speeding up.
std::string slow_stage(const EpochEvent& event, DataKind data) {
  if (event.seconds < 1) return "";
  size_t slowest = 0;
  for (size_t i = 0; i < stage_names.size(); ++i) {
    if (static_cast<Stage>(i) == Stage::step) continue;
    if (event.times.seconds[i] > event.times.seconds[slowest]) slowest = i;
  }
  const double share = event.times.seconds[slowest] / std::max(event.seconds, 1e-9);
  if (share < 0.2) return "";
  const auto remedy = [&] {
    switch (static_cast<Stage>(slowest)) {
      case Stage::data_wait:
        if (data != DataKind::pictures) break;  // the others are in memory already
        return ": try data.cache=memory or more data.workers";
      case Stage::validation:
        return ": try train.validate_every=2 or more";
      case Stage::checkpoint:
        return ": try checkpoint.every=STEPS, a larger number";
      case Stage::step:
      case Stage::logging:
        break;
    }
    return "";
  };
  return fmt::format("; slow: {} took {:.0f} % of the epoch{}", stage_names[slowest], 100 * share,
                     remedy());
}

}  // namespace

std::string status_text(const StepEvent& event, bool brief) {
  std::string text;
  if (event.loss) text += fmt::format("loss {:.4f}  ", *event.loss);
  if (event.accuracy) {
    text += fmt::format("{} {:.3f}  ", brief ? "acc" : "accuracy", *event.accuracy);
  }
  return text + fmt::format("{:.0f} examples/s  {} {:.0f} %  {} left", event.examples_per_s,
                            brief ? "wait" : "data wait", 100 * event.wait_share,
                            human_seconds(event.seconds_left));
}

std::string human_seconds(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

Progress::Progress(RunFolder& folder, Device device, DataKind data, int verbosity)
    : folder_(folder),
      device_(device),
      data_(data),
      verbosity_(verbosity),
      bar_(is_terminal(stderr)),
      last_(Clock::now()) {}

Progress::~Progress() {
  clear_bar();
}

void Progress::clear_bar() {
  if (!bar_shown_) return;
  tell("\r\033[K");
  bar_shown_ = false;
}

void Progress::say(const std::string& line) {
  clear_bar();
  if (verbosity_ >= 0) tell(fmt::format("{}\n", line));
  folder_.log().append(line + "\n");
}

void Progress::on_detail(const std::string& line) {
  if (verbosity_ > 0) {
    say(line);
  } else {
    folder_.log().append(line + "\n");
  }
}

void Progress::on_step(const StepEvent& event) {
  if (!stepped_) {
    stepped_ = true;
    on_detail(fmt::format("first step done {:.2f} s after the program started",
                          seconds_since_process_start()));
    if (const std::string line = device_start_text(device_); !line.empty()) on_detail(line);
  }
  if (verbosity_ < 0) return;
  const auto interval = bar_ ? std::chrono::milliseconds(200) : std::chrono::seconds(5);
  if (Clock::now() - last_ < interval) return;
  last_ = Clock::now();
  if (bar_) {  // short words, and a bar as wide as they leave room for: 80 columns must do
    const double share = static_cast<double>(event.batch) / static_cast<double>(event.batches);
    const std::string before = fmt::format("epoch {} [", event.epoch + 1);
    const std::string after = "] " + status_text(event, true);
    const int columns = std::max(20, terminal_width() - 1);
    const int room = columns - static_cast<int>(before.size() + after.size());
    std::string line =
        before + bar_text(share, static_cast<size_t>(std::clamp(room, 4, 20))) + after;
    line.resize(std::min(line.size(), static_cast<size_t>(columns)));
    tell(fmt::format("\r\033[K{}", line));
    bar_shown_ = true;
  } else {
    tell(fmt::format("epoch {} step {}/{}  {}\n", event.epoch + 1, event.batch, event.batches,
                     status_text(event)));
  }
}

void Progress::on_epoch(const EpochEvent& event) {
  std::string line = fmt::format("epoch {}/{}  train loss {:.4f}", event.epoch + 1, event.epochs,
                                 event.train_loss);
  if (event.train_accuracy) line += fmt::format(" accuracy {:.4f}", *event.train_accuracy);
  if (event.val_loss) {
    line += fmt::format("  val loss {:.4f}", *event.val_loss);
    for (const Figure& one : event.val_figures) {
      line += fmt::format(" {} {:.4f}", one.name, one.value);
    }
    if (event.best) line += " (best)";
  }
  line += fmt::format("  {}", human_seconds(event.seconds));
  if (const std::string slow = slow_stage(event, data_); !slow.empty() && !told_slow_) {
    told_slow_ = true;  // the remedies are for the next run: once is enough
    line += slow;
  }
  say(line);
  if (verbosity_ > 0) {
    std::string split = "  time:";
    for (size_t i = 0; i < stage_names.size(); ++i) {
      split += fmt::format(" {} {:.2f} s", stage_names[i], event.times.seconds[i]);
    }
    say(split);
  }
}

void Progress::on_message(const std::string& text) {
  say(text);
}

}  // namespace whisker
