// Whether the first row of a table holds the names of its columns.
#pragma once

#include "core/io/json.h"
#include "data/sequences/row_file.h"

#include <cstddef>
#include <span>
#include <string>

namespace whisker {

/// Removes the first row of a table of texts if it is a header, by `header` or by what the cells
/// tell, and notes what was assumed. With `named` columns it is one. `classes`: those of a trained
/// model, or none. Throws data where both readings are equally likely, usage for named columns
/// without a header.
void drop_text_header(RowFile& file, Header header, bool named, size_t label, size_t text,
                      std::span<const std::string> classes);

/// The same for a table of labelled sequences; `label` is the number of columns where rows have no
/// label.
void drop_rows_header(RowFile& file, Header header, bool named, size_t label);

/// Whether a series' columns, given by number, hold no value in the first row, or `header` says so:
/// removes it.
void drop_series_header(RowFile& file, Header header, bool named, std::span<const size_t> columns);

/// `header` as a key of a description, which is left out for Header::automatic, and back.
void write_header(JsonWriter& json, Header header);
Header read_header(const JsonValue& json);

/// Throws usage when columns have names that no row gives.
void check_header_named(Header header, bool named, const std::string& file);

}  // namespace whisker
