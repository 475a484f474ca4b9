// Several series in one file, one behind the other, whose names stand in a column beside.
#pragma once

#include "data/sequences/row_file.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

inline constexpr std::string_view several_series =
    "as of several series, and windows run across: give each a file of its own";

/// The rows in which a column's value changes; none where a value returns.
std::vector<size_t> block_starts(const RowFile& file, size_t column);

/// That another series begins in row `start`, by what stands in `column`.
std::string blocks_note(const RowFile& file, size_t column, size_t start);

/// The note on the first of the columns `beside` that holds names in blocks, or numbers, where its
/// name says of what (unit, store) or another column counts the rows of each; "" where none does.
/// It is for files without times, which tell better.
std::string named_blocks_note(const RowFile& file, std::span<const size_t> beside);

}  // namespace whisker
