// The columns of a table of texts: which are read, which are not, and what else may be the text.
#pragma once

#include "data/sequences/row_file.h"

#include <cstddef>
#include <string>
#include <vector>

namespace whisker {

/// The positions of two columns, whether they were given by name, and whether somebody chose them:
/// they may be the defaults.
struct TextColumns {
  size_t label = 0, text = 1;
  bool label_named = false, text_named = false;
  bool label_chosen = true, text_chosen = true;
};

/// Before the header is removed: throws data for a row of types among the first two, and for a row
/// of names below another, which would be examples. `header_known`: the first row is a header.
void refuse_types(const RowFile& file, bool header_known, const TextColumns& columns);

/// Behind it: throws data where nobody chose the columns and another may be the text as well, or
/// what is read as labels and texts is the other way round.
void refuse_likely_columns(const RowFile& file, const TextColumns& columns);

/// The columns that nothing reads, unless both columns were chosen, and what stands in columns
/// without a name behind the text; none where all are read.
std::vector<std::string> unread_columns(const RowFile& file, const TextColumns& columns);

}  // namespace whisker
