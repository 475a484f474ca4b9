// metrics.csv: a row for each epoch, for spreadsheets. It holds what the epochs' lines of
// metrics.jsonl do, from which a resume makes it again.
#pragma once

#include "core/io/run_files.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

class MetricsCsv {
 public:
  /// The file of a rank that writes nothing.
  MetricsCsv() = default;

  /// Writes the header and a row for each epoch in `folder`'s metrics.jsonl, in place of the file
  /// that is there. `figures`: names of the validation's. What fails ends the file, not the run: it
  /// becomes a take_note().
  void begin(const std::filesystem::path& folder, const std::vector<std::string>& figures);
  /// Appends the row of a line of metrics.jsonl that is of an epoch.
  void add(std::string_view line);
  /// A message for the user, once; "" for none.
  std::string take_note();

 private:
  std::string row_of(std::string_view line) const;
  void give_up(std::string_view why);

  std::vector<std::string> columns_;
  std::unique_ptr<LogFile> file_;
  std::string note_;
};

}  // namespace whisker
