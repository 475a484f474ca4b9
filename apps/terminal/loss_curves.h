// A run's losses over its epochs, drawn with block characters.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <span>
#include <string>

namespace whisker {

/// One of eight heights from `low` to `high` per column: the mean of the finite values that fall
/// into it, a space where there are none. At most `columns`, and no more than there are values.
std::string block_curve(std::span<const double> values, double low, double high, size_t columns);

/// Training's and validation's loss from a run's metrics.jsonl, on one scale, in lines of at most
/// `columns`; "" for fewer than three epochs. Throws data for lines that are no JSON.
std::string loss_curves(std::istream& metrics, size_t columns);

/// Whether the environment's locale (LC_ALL, LC_CTYPE, LANG) is one of UTF-8.
bool locale_is_utf8();

}  // namespace whisker
