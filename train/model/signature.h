// The inputs and outputs of a network. Kept in its weights file beside the layers.
#pragma once

#include "core/error.h"
#include "data/sequences/rows_input.h"
#include "data/sequences/series_input.h"
#include "data/sequences/text_input.h"
#include "data/transforms/preprocess.h"
#include "layers/builder/model_builder.h"
#include "train/model/calibration_record.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace whisker {

enum class Task : uint8_t {
  classification,  ///< a class for each example
  regression,      ///< numbers for each example
  language_model,  ///< the next token at every step
};

/// How examples become tensors: images, text, one sequence per row, or windows of a series.
using InputDescription = std::variant<Preprocess, TextInput, RowsInput, SeriesInput>;

/// From the metadata `sequence`. Throws checkpoint, naming `file`, for what is missing or wrong.
InputDescription sequence_from_json(const std::string& text, const std::string& file);

struct Signature {
  InputDescription input = Preprocess{};
  std::vector<std::string> classes = {};              ///< only for classification
  std::string positive_class = {};                    ///< one of them: f1_class is its F1; "": none
  std::optional<CalibrationRecord> calibration = {};  ///< of the probabilities

  Task task() const;
  /// Throws `kind`, naming `key`, for a positive class that is none of the classes.
  void set_positive_class(const std::string& name, ErrorKind kind, const std::string& key);
  /// Name of the examples: "images", "texts", "rows", "windows", "tokens".
  const char* examples() const;
  /// How the layers are built for batches of `rows` examples, sequences `steps` long.
  BuildOptions build_options(int64_t rows, int64_t steps) const;
  /// Steps of an input whose length the signature fixes or limits; else 64.
  int64_t usual_steps() const;

  /// The description as JSON: the metadata `preprocess` for images, else `sequence`.
  std::string input_json() const;
  /// Whether `json` is input_json() of the same input; older ones lack what was added since for
  /// reading files: whether there is a header, and how labels are told from values.
  bool has_input(const std::string& json) const;
  const char* input_key() const;
  /// From a weights file's metadata; a preset's (`arch`) that lacks `preprocess` reads images as
  /// its ImageNet weights do. Throws checkpoint, naming `file`, for what is missing or wrong.
  static Signature from_metadata(const std::map<std::string, std::string>& metadata,
                                 const std::string& file);
};

/// Class names as the metadata hold them.
std::string class_names_json(const std::vector<std::string>& names);
/// The class names in a weights file's metadata; empty when it has none. Throws checkpoint when
/// they are not a list of names, or when `whisker train` wrote the file and two are equal.
std::vector<std::string> classes_of(const std::map<std::string, std::string>& metadata,
                                    const std::string& file);

}  // namespace whisker
