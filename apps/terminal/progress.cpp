// Lines and bars.
#include "apps/terminal/progress.h"

#include "apps/terminal/start_report.h"
#include "apps/terminal/terminal.h"
#include "core/io/text.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace whisker {
namespace {

using Clock = std::chrono::steady_clock;

std::string bar_text(double share, size_t width) {
  const auto filled = static_cast<size_t>(share * static_cast<double>(width));
  return std::string(filled, '=') + (filled < width ? ">" : "") +
         std::string(width - std::min(width, filled + 1), ' ');
}

// The stage after the training step itself that took longest, when it took a fifth or more of an
// epoch worth speeding up whose times are those of later ones.
std::string slow_stage(const EpochEvent& event, DataKind data) {
  if (event.seconds < 1 || !event.steady) return "";
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
        if (data != DataKind::images) break;  // the others are in memory already
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
  return fmt::format("slow: {} took {:.0f} % of the epoch{}", stage_names[slowest], 100 * share,
                     remedy());
}

// A rank that the others wait for.
std::string slow_rank(const StepEvent& event) {
  constexpr double worth_naming = 0.1;
  if (!event.ranks || event.ranks->excess < worth_naming) return "";
  return fmt::format("rank {} {:.0f} % slower", event.ranks->slowest, 100 * event.ranks->excess);
}

// What is known of it: the run's time is not before all layers are trained.
std::string time_left(const StepEvent& event) {
  std::string text;
  if (event.epoch_seconds_left) {
    text = fmt::format("{} of this epoch", rounded_seconds(*event.epoch_seconds_left));
  }
  if (event.run_seconds_left) {
    text += fmt::format("{}{} of the run", text.empty() ? "" : ", ",
                        rounded_seconds(*event.run_seconds_left));
  }
  return text;
}

std::string position(const StepEvent& event) {
  return fmt::format("epoch {}/{}", event.epoch + 1, event.epochs);
}

}  // namespace

std::string status_text(const StepEvent& event, int columns) {
  std::vector<std::string> parts = {
      event.epoch_loss ? "loss " + figure_text(*event.epoch_loss) : "",
      event.epoch_accuracy ? fmt::format("acc {:.3f}", *event.epoch_accuracy) : "",
      fmt::format("{:.0f} examples/s", event.examples_per_s),
      fmt::format("wait {:.0f} %", 100 * event.wait_share),
      event.ranks ? fmt::format("comm {:.0f} %", 100 * event.ranks->communication) : "",
      slow_rank(event),
      time_left(event)};
  const auto joined = [&] {
    std::string line;
    for (const std::string& part : parts) line += (line.empty() || part.empty() ? "" : "  ") + part;
    return line;
  };
  for (const size_t least_important : {4, 3, 2, 1, 0, 5}) {
    if (std::ssize(joined()) <= columns) break;
    parts[least_important].clear();
  }
  if (std::ssize(joined()) > columns && event.run_seconds_left) {
    parts.back() = fmt::format("{} left", rounded_seconds(*event.run_seconds_left));
  }
  return joined();
}

std::string lines_of(std::span<const std::string> parts, int columns) {
  std::string text;
  size_t begin = 0;  // of the last line
  for (const std::string& part : parts) {
    const bool fits = text.size() - begin + 2 + part.size() <= static_cast<size_t>(columns);
    if (!text.empty() && !fits) begin = text.size() + 1;
    text += (text.empty() ? "" : fits ? "  " : "\n  ") + part;
  }
  return text;
}

std::string rounded_seconds(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 100) return fmt::format("{} s", whole);
  const int64_t minutes = (whole + 30) / 60;
  if (minutes < 100) return fmt::format("{} min", minutes);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
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
  show_bar("");
  bar_shown_ = false;
}

void Progress::say(const std::string& line) {
  clear_bar();
  if (verbosity_ >= 0) tell(fmt::format("{}\n", line));
  folder_.log(line);
}

void Progress::on_detail(const std::string& line) {
  if (verbosity_ > 0) {
    say(line);
  } else {
    folder_.log(line);
  }
}

// Whether another line, or the bar, is to be shown now.
bool Progress::due() {
  if (verbosity_ < 0) return false;
  const auto interval = bar_ ? std::chrono::milliseconds(200) : std::chrono::seconds(5);
  if (Clock::now() - last_ < interval) return false;
  last_ = Clock::now();
  return true;
}

void Progress::on_step(const StepEvent& event) {
  if (!stepped_) {
    stepped_ = true;
    on_detail(fmt::format("first step done {:.2f} s after the program started",
                          seconds_since_process_start()));
    if (const std::string line = device_start_text(device_); !line.empty()) on_detail(line);
  }
  if (!due()) return;
  const int columns = std::max(20, terminal_width(stderr) - 1);
  if (bar_) {  // as wide as the status text permits
    constexpr int narrowest = 4, widest = 20;
    const double share = static_cast<double>(event.batch) / static_cast<double>(event.batches);
    const std::string before = position(event) + " [";
    const int beside = columns - static_cast<int>(before.size()) - 2;
    const std::string status = status_text(event, beside - narrowest);
    const int width = std::clamp(beside - static_cast<int>(status.size()), narrowest, widest);
    const std::string line = before + bar_text(share, static_cast<size_t>(width)) + "] " + status;
    show_bar(std::string_view(line).substr(0, static_cast<size_t>(columns)));
    bar_shown_ = true;
  } else {
    const std::string before =
        fmt::format("{} step {}/{}  ", position(event), event.batch, event.batches);
    tell(before + status_text(event, columns - static_cast<int>(before.size())) + "\n");
  }
}

void Progress::on_epoch(const EpochEvent& event) {
  std::string train = "train loss " + figure_text(event.train_loss);
  if (event.train_accuracy) train += fmt::format(" accuracy {:.4f}", *event.train_accuracy);
  std::vector<std::string> parts = {fmt::format("epoch {}/{}", event.epoch + 1, event.epochs),
                                    std::move(train)};
  if (event.val_loss) {
    std::string val = "val loss " + figure_text(*event.val_loss);
    for (const Figure& one : event.val_figures) {
      val += fmt::format(" {} {}", one.label(), one.text());
    }
    parts.push_back(val + (event.best ? fmt::format(" (best {})", event.best_by) : std::string()));
  }
  parts.push_back(human_seconds(event.seconds));
  if (const std::string slow = slow_stage(event, data_); !slow.empty() && !told_slow_) {
    told_slow_ = true;  // the remedies are for the next run: once is enough
    parts.push_back(slow);
  }
  say(lines_of(parts, terminal_width(stderr)));
  if (verbosity_ > 0) {
    std::vector<std::string> split = {"  time:"};
    for (size_t i = 0; i < stage_names.size(); ++i) {
      split.push_back(fmt::format("{} {:.2f} s", stage_names[i], event.times.seconds[i]));
    }
    say(lines_of(split, terminal_width(stderr)));
  }
}

void Progress::on_preparing(const Preparing& preparing) {
  if (!due()) return;
  const std::string line =
      fmt::format("{}: {} of {}", preparing.what, grouped(preparing.done), grouped(preparing.all));
  if (bar_) {
    show_bar(line);
    bar_shown_ = true;
  } else {
    tell(line + "\n");
  }
}

void Progress::on_message(const std::string& text) {
  say(text);
}

}  // namespace whisker
