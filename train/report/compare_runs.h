// Several runs on one page: curves, figures on common examples, settings, disagreements.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace whisker {

/// Compares folders of two runs or more; a page as of run_report(). Throws as read_run_record().
std::string run_comparison(const std::vector<std::filesystem::path>& folders);

}  // namespace whisker
