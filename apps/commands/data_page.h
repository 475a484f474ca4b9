// The pages of `whisker data check --report` and `whisker data label-issues -o`: a run's frame,
// with small images. At most 3 MB.
#pragma once

#include "data/images/image_folder.h"
#include "data/tools/check.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

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

/// `said`: what was assumed and skipped, one a line.
std::string data_check_page(const ImageFolder& train, const ImageFolder* val,
                            const CheckResult& result, const std::string& said);

inline constexpr std::string_view label_issues_mark = "whisker data label-issues";

/// Whether a file's content is such a page, unchanged.
bool is_data_check_page(std::string_view content);
bool is_label_issues_page(std::string_view content);

}  // namespace whisker
