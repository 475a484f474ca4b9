// `evaluate --csv` of texts and rows: the examples of a file or folder that a label CSV lists, with
// its labels. `evaluate --predictions` writes such a CSV; a person may remove rows and correct
// labels.
#pragma once

#include "data/sequences/row_file.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

struct ListedExamples {
  std::vector<int64_t> indices;         ///< of those listed, ascending
  std::vector<int64_t> labels;          ///< of each of them: a class
  std::vector<BadRow> bad;              ///< listed, but unusable
  std::vector<std::string> notes = {};  ///< what was assumed
};

/// What a file or folder holds: the place of each example ("file:line", or its file), its own
/// label, where there are any, and what cannot be used.
struct HeldExamples {
  std::vector<std::string> places = {}, labels = {};
  std::span<const BadRow> bad = {};
};

/// Finds what `csv` lists, by path: relative to the CSV's folder. Throws what read_label_table()
/// throws, and data for an example that is listed twice and where none is found.
ListedExamples listed_examples(const std::filesystem::path& csv, const HeldExamples& held,
                               std::span<const std::string> classes);

/// The file that all paths of `csv` are lines of ("reviews.csv:12"), if they are of one.
std::optional<std::filesystem::path> listed_table(const std::filesystem::path& csv);

}  // namespace whisker
