// Writes report.html while a run goes on. A report is never worth the run: what keeps it from being
// written is said once, at the end.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace whisker {

class ReportWriter {
 public:
  explicit ReportWriter(std::filesystem::path run) : run_(std::move(run)) {}

  /// After an epoch, on any one thread at a time: writes it as far as all reports together take at
  /// most 1 % of the time since construction. Throws nothing.
  void update();
  /// Writes the model card, calls `add_examples`, if there is one, and writes the report, whatever
  /// it takes. Returns a message: where it is, or what was not written, and why.
  std::string finish(const std::function<void()>& add_examples = {});

 private:
  using Clock = std::chrono::steady_clock;
  void write();

  std::filesystem::path run_;
  std::string problem_;  // of the last write
  Clock::time_point start_ = Clock::now();
  double spent_ = 0, last_ = 0;  // seconds
};

}  // namespace whisker
