// Texts and rows as sequences of numbers with labels: in training, `evaluate` and `classify` alike.
#pragma once

#include "data/labelled_text.h"
#include "data/rows_input.h"
#include "data/sequence_set.h"
#include "data/text_input.h"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// The examples `indices` of `text` with their labels.
SequenceSet encode(const LabelledText& text, std::span<const int64_t> indices,
                   const TextInput& input);

/// The labels that occur, sorted: as numbers where all are, else bytewise. Throws data for fewer
/// than two.
std::vector<std::string> class_names(const LabelledRows& rows);
/// Each row's position among `classes`. Throws data, naming the row, for a label that is none.
std::vector<int64_t> numbers_of(const LabelledRows& rows, std::span<const std::string> classes);
/// The rows `indices`, scaled, with their labels.
SequenceSet encode(const LabelledRows& rows, std::span<const int64_t> indices,
                   const RowsInput& input, std::span<const std::string> classes);

/// All of a text file. Throws data for one that cannot be read, is empty or no UTF-8.
std::string read_plain_text(const std::filesystem::path& path);

}  // namespace whisker
