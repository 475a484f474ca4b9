// How images of a tape draw each kind of operator. Internal to core/trace and the page of
// apps/study.
#pragma once

#include "core/trace/recording.h"

#include <span>
#include <string>
#include <string_view>

namespace whisker {

/// What an operator does, or what else an entry is: its class in a style sheet.
struct TapeFamily {
  std::string_view name;
  std::string_view legend;
  std::string_view fill, stroke;            ///< light
  std::string_view dark_fill, dark_stroke;  ///< dark
};

std::span<const TapeFamily> tape_families();
const TapeFamily& family_of(const TapeEntry& entry);
/// svg_rules() of all families.
std::string tape_rules();

}  // namespace whisker
