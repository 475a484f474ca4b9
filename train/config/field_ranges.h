// Common ranges, names of choices, and the section `data`, for the files that list the
// configuration's keys.
#pragma once

#include "train/config/config.h"

#include <span>
#include <string_view>

namespace whisker {

/// The keys of the section `data`.
void data_fields(FieldVisitor& v, DataConfig& c);

}  // namespace whisker

namespace whisker::fields {

using Names = std::span<const std::string_view>;

constexpr FieldInfo share(const char* about) {
  return {.about = about, .low = 0, .high = 1};
}
constexpr FieldInfo at_least(double low, const char* about) {
  return {.about = about, .low = low};
}
constexpr FieldInfo above_zero(const char* about) {
  return {.about = about, .low = 0, .exclusive_low = true};
}
constexpr FieldInfo below_one(const char* about) {
  return {.about = about, .low = 0, .high = 1, .exclusive_high = true};
}

}  // namespace whisker::fields
