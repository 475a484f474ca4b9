// Which validation examples compared runs have in common, and what each run makes of them.
#pragma once

#include "train/report/run_record.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace whisker {

struct ComparedRun {
  RunRecord record;
  std::string title;                        ///< its name, with a number where two have one
  std::vector<int64_t> contents;            ///< of the validation examples; empty: not recorded
  std::map<std::string, int64_t> examples;  ///< by what makes two the same
};

struct CommonExamples {
  bool classify = false;               ///< all runs
  bool forecast = false;               ///< all runs the same columns and steps
  bool by_content = false;             ///< else by path
  std::vector<std::string> keys = {};  ///< of ComparedRun::examples
};

/// The hashes of ComparedRun::contents.
std::vector<int64_t> recorded_contents(const std::filesystem::path& run,
                                       const ValidationExamples& all);
/// Fills ComparedRun::examples. Of copies within a run each counts.
CommonExamples match_examples(std::span<ComparedRun> runs);

/// "80.0 % (49.0 to 94.3 %)".
std::string accuracy_text(int64_t correct, int64_t count);
/// A run's accuracy or mean absolute error on the common examples.
std::string common_text(const CommonExamples& common, const ComparedRun& run);
/// How many there are, and how that is known.
std::string common_note(const CommonExamples& common);

}  // namespace whisker
