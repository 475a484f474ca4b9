// What whole columns and rows of a table contradict.
#pragma once

#include "data/sequences/row_file.h"

#include <cstddef>
#include <span>
#include <string>

namespace whisker {

/// Whether a column that is not in `read` proves that the first row is a header: a name stands
/// above numbers or dates. Always false of older rules.
bool unread_column_has_name(const RowFile& file, std::span<const size_t> read);

/// Removes the first row, a header, and the rows that repeat it, as in tables written one behind
/// the other; these with a note. Names that are numbers repeat nothing: they may be values.
void drop_headers(RowFile& file);

/// Throws data for a key's number that is the name of another column. Names that count the columns
/// (0,1,2) are told apart by a note (data/sequences/numbered_header.h).
void refuse_numbers_as_names(RowFile& file, std::span<const std::string> keys);

/// Throws data for a table with semicolons in which one of `columns` may hold thousands: every
/// point is followed by exactly three digits, and integers go on where these end, from 100 to 999.
void refuse_thousands(RowFile& file, std::span<const size_t> columns);

/// Throws data where each label holds a semicolon, tab or bar, as many as all others, and hardly
/// one occurs twice: fields may end there.
void refuse_other_separator(RowFile& file, size_t label);

}  // namespace whisker
