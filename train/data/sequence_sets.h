// Texts and rows as sequences of numbers with labels: in training, `evaluate` and `classify` alike.
#pragma once

#include "data/sequences/labelled_text.h"
#include "data/sequences/rows_input.h"
#include "data/sequences/sequence_example.h"
#include "data/sequences/sequence_set.h"
#include "data/sequences/text_input.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// Adds the tokens of the texts `indices` to `counts`; returns how many texts
/// TextInput::max_length cuts.
int64_t count_tokens(const LabelledText& text, std::span<const int64_t> indices,
                     const TextInput& input, TokenCounts& counts);

/// The examples `indices` of `text` with their labels.
SequenceSet encode(const LabelledText& text, std::span<const int64_t> indices,
                   const TextInput& input);

/// The labels that occur, sorted numerically if all are numbers, else bytewise. Throws data for
/// fewer than two.
std::vector<std::string> class_names(const LabelledRows& rows);
/// Each row's index in `classes`. Throws data, naming the row, for an unknown label.
std::vector<int64_t> numbers_of(const LabelledRows& rows, std::span<const std::string> classes);
/// The rows `indices`, scaled, with their labels.
SequenceSet encode(const LabelledRows& rows, std::span<const int64_t> indices,
                   const RowsInput& input, std::span<const std::string> classes);

/// Shorter lines of a plain text are often the same by chance.
inline constexpr size_t least_line_bytes = 80;

/// Hashes of what stands in the data: of texts, of the values of rows (0 where fewer than 8 of
/// them differ), and of the distinct lines of a plain text that have least_line_bytes or more.
std::vector<uint64_t> contents_of(const LabelledText& text);
std::vector<uint64_t> contents_of(const LabelledRows& rows);
std::vector<uint64_t> contents_of(std::string_view text);
/// Hashes of the values of each row.
std::vector<uint64_t> hashes_of(const LabelledRows& rows);

/// The examples `indices`, as they stand in the data.
std::vector<SequenceExample> examples_of(const LabelledText& text,
                                         std::span<const int64_t> indices);
std::vector<SequenceExample> examples_of(const LabelledRows& rows,
                                         std::span<const int64_t> indices);

/// The content of a text file. Throws data for a file that is unreadable, empty or invalid UTF-8,
/// and, but for older `rules`, looks like UTF-16 without a mark.
std::string read_plain_text(const std::filesystem::path& path, int rules = newest_data_rules);

}  // namespace whisker
