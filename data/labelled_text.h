// Texts with labels: one row each in a TSV or CSV file, or one file per class with a text per line.
#pragma once

#include "data/row_file.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace whisker {

struct LabelledText {
  struct Example {
    std::string text;
    int64_t label = 0;
    std::string place;  ///< "file:line"
  };
  std::vector<std::string> classes;  ///< sorted bytewise; a label is a position here
  std::vector<Example> examples;     ///< files in bytewise order, lines as they come
  std::vector<BadRow> bad;           ///< empty texts, bytes that are no UTF-8, missing fields

  std::vector<int64_t> labels() const;
};

struct LabelledTextOptions {
  std::string label_column = "1";  ///< numbers from 1, or names that the first row holds
  std::string text_column = "2";
  /// The class table to use, as when evaluating a trained model; a row with another label is bad.
  /// Empty: the classes found, two at least.
  std::vector<std::string> classes = {};
  double max_bad = 0.01;      ///< share of bad rows above which reading fails
  std::string name = "data";  ///< what errors call the path
};

/// Reads `path`: a file of rows, or a folder whose visible files are named after their class
/// ("French.txt") and hold a text per line. Throws data, saying what was found and what to do.
LabelledText read_labelled_text(const std::filesystem::path& path,
                                const LabelledTextOptions& options);

}  // namespace whisker
