// A recorded step as tables.
#pragma once

#include "core/trace/recording.h"

#include <string>

namespace whisker {

/// Numbered tables of both directions, and totals; `width` as in TextTable::str().
std::string tape_listing(const Recording& recording, size_t width = 0);

}  // namespace whisker
