// Files in which each row is a labelled sequence: how rows become a network's input. Part of the
// weights file.
#pragma once

#include "data/sequences/row_file.h"
#include "data/sequences/scaling.h"
#include "data/sequences/sequence_set.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct RowsInput {
  std::string label_column = "1";     ///< a number from 1, or a name that the first row holds
  int64_t features = 1;               ///< values per step
  int64_t most_steps = 0;             ///< in a row
  std::vector<Scaling> scaling = {};  ///< of each feature
  Header header = Header::automatic;
  std::vector<std::string> names = {};  ///< of the columns of values, where a header has them
  int64_t least_steps = 1;              ///< in a row; 1 in older weights
  /// How likely the value that stands in the label's column, where rows have none, reads as a
  /// class: see find_label_column(). Not known of older weights.
  std::optional<double> class_like = {};

  /// "values" or, of several a step, "value 2 of a step", of each.
  std::vector<std::string> value_names() const;
  std::string json() const;
  /// Throws checkpoint, naming `name`, for text that json() did not write.
  static RowsInput from_json(std::string_view text, const std::string& name);
};

/// Rows of one file: values, and labels where the file has them.
struct LabelledRows {
  int64_t features = 1;                     ///< values per step
  std::vector<std::string> labels;          ///< of each row; empty when there are none
  std::vector<std::vector<double>> values;  ///< of each row: (steps, features), a step or more
  std::vector<std::string> places;          ///< "file:line" of each row
  std::vector<BadRow> bad;
  std::vector<std::string> notes = {};  ///< what was assumed
  std::vector<std::string> names = {};  ///< of the columns of values, where the first row has them
  std::string name = {};                ///< of the file
  int rules = newest_data_rules;
};

struct LabelledRowsOptions {
  std::string label_column = "1";  ///< no_label_column: rows have none
  int64_t features = 1;
  double max_bad = 0.01;  ///< fraction of bad rows above which reading fails
  Header header = Header::automatic;
  std::vector<std::string> classes = {};  ///< of a trained model
  std::vector<std::string> names = {};    ///< of its columns of values
  int rules = newest_data_rules;          ///< see Note [Data rules]; of labelled_rows(): the file's
};

/// Reads `file`. A row's values are its fields without the label, step by step; empty fields and
/// NaN at its end are dropped, so that rows may differ in length. A numeric label becomes its
/// shortest text: "1" for 1.0000000e+00. Throws data as read_rows() does, for too many bad rows and
/// for a header that contradicts the options.
LabelledRows labelled_rows(RowFile file, const LabelledRowsOptions& options);
LabelledRows read_labelled_rows(const std::filesystem::path& path,
                                const LabelledRowsOptions& options);

/// RowsInput::class_like and the lengths, of the rows `indices`.
void fit_label_evidence(const LabelledRows& rows, std::span<const int64_t> indices,
                        std::span<const std::string> classes, RowsInput& input);

/// What of the rows is unlike the training data that `input` knows: their lengths, and their
/// values.
std::vector<std::string> unlike_training(const LabelledRows& rows, const RowsInput& input);

/// Scaling of each feature over the rows `indices`.
std::vector<Scaling> fit_scaling(const LabelledRows& rows, std::span<const int64_t> indices);
/// The rows `indices` as sequences (steps, features), scaled; without labels.
SequenceSet scaled_sequences(const LabelledRows& rows, std::span<const int64_t> indices,
                             std::span<const Scaling> scaling);

}  // namespace whisker
