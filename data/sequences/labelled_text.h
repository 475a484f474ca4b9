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
  std::vector<SkippedFile> skipped = {};  ///< of a folder: files that are no texts
  int64_t files = 0, links = 0;           ///< of a folder: texts, and how many are symbolic links
  std::vector<std::string> notes = {};    ///< what was assumed

  /// What is used of a folder: see use_of_files().
  std::string use() const { return use_of_files(files, links, skipped); }
  std::vector<int64_t> labels() const;
};

struct LabelledTextOptions {
  std::string label_column = "1";  ///< numbers from 1, or names that the first row holds
  std::string text_column = "2";
  bool label_chosen = false, text_chosen = false;  ///< see TextColumns
  Header header = Header::automatic;
  /// The classes to use, for evaluating a trained model; a row with another label is bad. Empty:
  /// the classes found, at least two.
  std::vector<std::string> classes = {};
  double max_bad = 0.01;          ///< fraction of bad rows above which reading fails
  std::string name = "data";      ///< name of the path in errors
  int rules = newest_data_rules;  ///< see Note [Data rules]
};

/// Whether there is a text, a .txt file, below a folder.
bool holds_texts(const std::filesystem::path& folder);

/// Reads `path`: a file of rows; a folder of class folders, each .txt file below them a text
/// ("pos/0_9.txt", the layout of IMDB's archive and Keras' text_dataset_from_directory); or a
/// folder whose .txt files are named after their class ("French.txt") and hold a text per line.
/// Throws data with what was found and a remedy.
LabelledText read_labelled_text(const std::filesystem::path& path,
                                const LabelledTextOptions& options);

}  // namespace whisker
