#include "train/report/report_writer.h"

#include "core/io/text.h"
#include "train/report/run_report.h"

#include <exception>

#include <fmt/format.h>

namespace whisker {

void ReportWriter::update() {
  constexpr double most = 0.01;  // of the run's time
  const double passed = std::chrono::duration<double>(Clock::now() - start_).count();
  if (spent_ + last_ > most * passed && spent_ > 0) return;
  write();
}

std::string ReportWriter::finish(const std::function<void()>& add_examples) {
  std::string without;
  try {
    write_model_card(run_);
    if (add_examples) add_examples();
  } catch (const std::exception& error) {
    without = fmt::format(", without new examples: {}", error.what());
  }
  write();
  if (problem_.empty()) {
    return fmt::format("report: {}{}", printable((run_ / "report.html").string()), without);
  }
  return fmt::format("the report was not written: {} train.report=false leaves it out.", problem_);
}

void ReportWriter::write() {
  const Clock::time_point begin = Clock::now();
  problem_.clear();
  try {
    write_run_report(run_, run_ / "report.html");
  } catch (const std::exception& error) {
    problem_ = error.what();
  }
  last_ = std::chrono::duration<double>(Clock::now() - begin).count();
  spent_ += last_;
}

}  // namespace whisker
