// What older runs read and newer ones refuse.
#pragma once

#include "core/error.h"
#include "data/files/decode_rules.h"

#include <string>
#include <vector>

namespace whisker {

/// Calls `check`, which throws for data that may be read in two ways. A run of older `rules` goes
/// on with the reading that it began with: what `check` says becomes one of the `notes`.
template <class Check>
void check_reading(int rules, std::vector<std::string>& notes, const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    if (rules == newest_data_rules) throw;
    notes.push_back(
        fmt::format("data.rules {} reads what newer ones refuse: {}", rules, error.what()));
  }
}

}  // namespace whisker
