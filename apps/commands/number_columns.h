// The CSV files that `classify` and `evaluate` write have texts, then numbers alone. They hold no
// mark: their columns tell whether a person added something.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// The names of a CSV's columns if the first one is `path`, and each row has `texts` texts and then
/// a number for each other column, as these commands write them; else none.
std::vector<std::string> number_columns(std::string_view csv, size_t texts);

}  // namespace whisker
