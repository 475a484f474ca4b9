// report.html of a run folder: what training did, as one HTML page drawn from the run's files.
#pragma once

#include "train/report/run_record.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// One HTML file without scripts, requests and absolute paths, of at most 3 MB.
std::string run_report(const RunRecord& run);

/// Folders of two runs or more on one such page: curves, figures on common examples, settings,
/// disagreements. Throws as read_run_record().
std::string run_comparison(const std::vector<std::filesystem::path>& folders);

/// Whether a file's content is such a page, unchanged.
bool is_run_report(std::string_view content);

/// Reads the run and writes `file` atomically: RUN/report.html as a rule. Throws as
/// read_run_record(), usage for another file that stands there or a report that was edited, unless
/// `force`, and disk.
void write_run_report(const std::filesystem::path& run, const std::filesystem::path& file,
                      bool force = false);

/// Writes RUN/README.md, a model card in Hugging Face's form
/// (https://huggingface.co/docs/hub/model-cards): what the run knows; what only a person knows is
/// "to be filled in". Another file that stands there, or was edited, stays. Throws disk.
void write_model_card(const std::filesystem::path& run);

}  // namespace whisker
