// Whether the first row of a table holds the names of its columns.
#pragma once

#include "core/io/json.h"
#include "data/sequences/row_file.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct TextColumns;  // data/sequences/text_columns.h

/// Removes the first row of a table of texts if it is a header, by `header` or by what the cells
/// tell, and notes what was assumed. With named columns it is one. `classes`: those of a trained
/// model, or none. Throws data where both readings are equally likely, or where a header calls
/// another column the label or the text; usage for named columns without a header.
void drop_text_header(RowFile& file, Header header, const TextColumns& columns,
                      std::span<const std::string> classes);

/// Drops the header of a table of labelled sequences; `label` is the number of columns where rows
/// have no label. A first row of missing values (NA, ?) is an example that cannot be used.
void drop_rows_header(RowFile& file, Header header, bool named, size_t label,
                      std::span<const std::string> classes);

/// Drops the header of a series: a first row, if `columns` hold names there.
void drop_series_header(RowFile& file, Header header, bool named, std::span<const size_t> columns);

/// Whether a cell may name a column: no number, also none that is too large, and nothing that
/// stands for a missing value.
bool is_column_name(std::string_view cell);

/// Whether a cell is a name that columns of labels, or of texts, have in published tables;
/// `surely`: that can mean nothing else.
bool names_label(std::string_view cell);
bool names_text(std::string_view cell, bool surely = false);

/// The first column, but for `label`, whose name says that it holds labels: label, class, target,
/// y.
std::optional<size_t> column_called_label(std::span<const std::string> names, size_t label);

/// The names of `columns`, if the first row held them. Throws data where one is called otherwise
/// than `expected`, the names in the training data; none: not known.
std::vector<std::string> names_of(const RowFile& file, std::span<const size_t> columns,
                                  std::span<const std::string> expected);

/// `header` as a key of a description, which is left out for Header::automatic, and back.
void write_header(JsonWriter& json, Header header);
Header read_header(const JsonValue& json);

/// The names of columns in a description; older ones have none.
std::vector<std::string> read_names(const JsonValue& json);

/// Throws usage when columns have names that no row gives.
void check_header_named(Header header, bool named, const std::string& file);

}  // namespace whisker
