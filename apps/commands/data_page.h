// The pages of `whisker data check --report` and `whisker data label-issues -o`: a run's frame,
// with small images. At most 3 MB.
#pragma once

#include "apps/terminal/command.h"
#include "apps/terminal/sequence_report.h"
#include "data/images/image_folder.h"
#include "data/tools/check.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace whisker {

/// Lists of small images, until those of a page are as large as it may become.
class ContactSheet {
 public:
  /// Adds one, with two lines of text below it. A file that cannot be read has its reason instead.
  /// False: the page is full, and nothing is added.
  bool add(const std::filesystem::path& file, const std::string& line, const std::string& more);
  /// The list of those added since the last call; "" without one.
  std::string take();
  int64_t left_out() const { return left_out_; }

 private:
  std::string items_;
  size_t bytes_ = 0;
  int64_t left_out_ = 0;
};

/// Note that says how many of `all` are shown, and which command lists all; "" where all are shown.
std::string left_out_note(size_t all, size_t shown, std::string_view of,
                          std::string_view command = "");
/// A bar as long as `count` of `most`, and the number.
std::string bar_of(int64_t count, int64_t most);
/// Section "classes" with a bar for each class; `val_counts`: as many, or empty, of `val_name`.
std::string class_sizes_section(std::span<const std::string> classes,
                                std::span<const int64_t> counts,
                                std::span<const int64_t> val_counts, std::string_view of,
                                std::string_view val_name = "validation");
/// "Checked on 2026-11-28 08:45:28 +01:00.", of now, with `done` for its first word.
std::string dated_note(std::string_view done);
/// Section "odd": names with their reasons, and `said` below.
std::string odd_section(std::string_view heading,
                        std::span<const std::pair<std::string, std::string>> rows,
                        std::string_view of, const std::string& said);

struct CheckedFolders {
  const ImageFolder& train;
  const ImageFolder* val;     ///< null: none
  std::string_view val_name;  ///< "validation", or "test" where that folder stands for it
};

/// `said`: what was assumed and skipped, one a line.
std::string data_check_page(const CheckedFolders& data, const CheckResult& result,
                            const std::string& said);
/// The page of a report on sequences with details; `name`: of the data.
std::string sequence_check_page(const std::string& name, const SequenceReport& report);

void add_label_issues(CLI::App& data, Invocation& invocation);

inline constexpr std::string_view data_check_mark = "whisker data check";
inline constexpr std::string_view label_issues_mark = "whisker data label-issues";

/// Whether a file's content is such a page, unchanged.
bool is_data_check_page(std::string_view content);
bool is_label_issues_page(std::string_view content);

}  // namespace whisker
