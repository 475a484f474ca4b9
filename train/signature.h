// What goes into a network and what comes out of it, beside the layers: kept in its weights file.
#pragma once

#include "data/preprocess.h"
#include "data/rows_input.h"
#include "data/series_input.h"
#include "data/text_input.h"
#include "layers/model_builder.h"

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace whisker {

enum class Task : uint8_t {
  classification,  ///< a class for each example
  regression,      ///< numbers for each example
  language_model,  ///< the next token at every step
};

/// How examples become tensors: pictures, text, one sequence per row, or windows of a series.
using InputDescription = std::variant<Preprocess, TextInput, RowsInput, SeriesInput>;

struct Signature {
  InputDescription input = Preprocess{};
  std::vector<std::string> classes = {};  ///< none but for classification

  Task task() const;
  /// What an example is called: "pictures", "texts", "rows", "windows", "tokens".
  const char* examples() const;
  /// How the layers are built for batches of `rows` examples, sequences `steps` long.
  BuildOptions build_options(int64_t rows, int64_t steps) const;
  /// Steps of an input whose length the signature fixes or limits; 64 where nothing does.
  int64_t usual_steps() const;

  /// The description as JSON: the metadata `preprocess` for pictures, else `sequence`.
  std::string input_json() const;
  const char* input_key() const;
  /// From a weights file's metadata. Throws checkpoint, naming `file`, for what is missing or
  /// wrong.
  static Signature from_metadata(const std::map<std::string, std::string>& metadata,
                                 const std::string& file);
};

/// The names of the classes that a weights file was trained on; none when it does not say. Throws
/// checkpoint when they are no list of names.
std::vector<std::string> classes_of(const std::map<std::string, std::string>& metadata,
                                    const std::string& file);

}  // namespace whisker
