// Texts with labels: one row each in a TSV or CSV file, one file each in class folders, or one file
// per class with a text per line.
#pragma once

#include "data/files/file_walk.h"
#include "data/sequences/row_file.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace whisker {

struct LabelledText {
  struct Example {
    std::string text;
    int64_t label = 0;
    std::string place;  ///< "file:line", or the file
  };
  std::vector<std::string> classes;       ///< sorted bytewise; a label is a position here
  std::vector<Example> examples;          ///< files in bytewise order, lines as they come
  std::vector<BadRow> bad;                ///< empty texts, invalid UTF-8, missing fields
  std::vector<SkippedFile> skipped = {};  ///< files beside class folders
  std::vector<std::string> notes = {};    ///< what was assumed

  std::vector<int64_t> labels() const;
};

struct LabelledTextOptions {
  std::string label_column = "1";  ///< numbers from 1, or names that the first row holds
  std::string text_column = "2";
  Header header = Header::automatic;
  /// The classes to use, for evaluating a trained model; a row with another label is bad. Empty:
  /// the classes found, at least two.
  std::vector<std::string> classes = {};
  double max_bad = 0.01;      ///< fraction of bad rows above which reading fails
  std::string name = "data";  ///< name of the path in errors
};

/// Reads `path`: a file of rows; a folder of class folders, each visible file below them a text
/// ("pos/0_9.txt", the layout of IMDB's archive and Keras' text_dataset_from_directory); or a
/// folder whose visible files are named after their class ("French.txt") and hold a text per line.
/// Throws data with what was found and a remedy.
LabelledText read_labelled_text(const std::filesystem::path& path,
                                const LabelledTextOptions& options);

}  // namespace whisker
