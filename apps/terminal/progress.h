// Output of `whisker train` while it runs: a bar on a terminal, else a line every few seconds, on
// stderr. Epoch lines also go to the run's log.txt.
#pragma once

#include "core/io/duration.h"
#include "train/checkpoint/run_folder.h"
#include "train/config/config.h"
#include "train/loop/events.h"

#include <chrono>
#include <span>
#include <string>

namespace whisker {

class Progress final : public TrainObserver {
 public:
  Progress(RunFolder& folder, Device device, DataKind data, int verbosity);
  ~Progress() override;

  void on_step(const StepEvent& event) override;
  void on_epoch(const EpochEvent& event) override;
  void on_message(const std::string& text) override;
  void on_preparing(const Preparing& preparing) override;
  /// A line for log.txt, and with -v for stderr.
  void on_detail(const std::string& line);

 private:
  void say(const std::string& line);  // stderr and log.txt
  void clear_bar();
  bool due();

  RunFolder& folder_;
  Device device_;
  DataKind data_;
  int verbosity_;
  bool bar_;
  bool bar_shown_ = false;
  bool stepped_ = false;
  bool told_slow_ = false;
  std::chrono::steady_clock::time_point last_;
};

/// "loss 0.6931 acc 0.500 1200 examples/s wait 2 % 41 s of this epoch, 9 min of the run", of
/// several ranks also "comm 4 %" and a slow one's name, without unknown values and values that do
/// not fit into `columns`.
std::string status_text(const StepEvent& event, int columns);

/// `parts` separated by two spaces, wrapped at `columns` onto indented lines.
std::string lines_of(std::span<const std::string> parts, int columns);

/// "2 h 05 min", "9 min", "41 s": a time that is estimated.
std::string rounded_seconds(double seconds);

}  // namespace whisker
