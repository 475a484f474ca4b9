// First rows that name the columns by numbers: 0,1,2,3 as pandas writes it, or the years of a
// table.
#pragma once

#include "data/sequences/row_file.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace whisker {

enum class NumberedHeader : uint8_t { no, unclear, yes };

/// Whether the first row of `file` numbers the columns, by what stands in it and below: numbers
/// that grow by equal steps, as in no other row, above cells of another kind. `label`: the column
/// of the labels, where a class (`classes`: those of a trained model) is no name; or the number of
/// columns.
NumberedHeader find_numbered_header(const RowFile& file, size_t label,
                                    std::span<const std::string> classes = {});

}  // namespace whisker
