// Whether the rows of a file hold a label, where a trained network reads them.
#pragma once

#include "data/sequences/row_file.h"
#include "data/sequences/rows_input.h"

#include <optional>
#include <span>
#include <string>

namespace whisker {

/// The argument of --label-column that says that no column holds a label.
inline constexpr std::string_view no_label_column = "none";

/// The column of the label in the rows of `file`: "none" where they have none. A label that has a
/// name is in the header or not; the column of a number is judged by what stands in it and by the
/// rows' lengths, against the training data that `input` describes. What was found is noted in
/// `file`. Throws data where both readings are equally likely.
std::string find_label_column(RowFile& file, const RowsInput& input,
                              std::span<const std::string> classes);

/// How a label reads: a number as its shortest text, "1" for 1.0000000e+00.
std::string label_text(const std::string& field);

/// Whether a field at a row's end stands for no value: empty, or NaN in any case; see Note [Data
/// rules].
bool is_padding(std::string_view field, int rules = newest_data_rules);

}  // namespace whisker
