// The terms of one operator, as loops over its tensors. Internal to core/trace.
#pragma once

#include "core/trace/recording.h"
#include "core/trace/term_loops.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace whisker {

/// Tensor 0 of `loops` is the result `output`, tensor 1 + k the operand at first_position + k.
struct OpTerms {
  TermLoops loops = {};
  size_t output = 0, first_position = 0;
  /// The operand's extent along the axis that an operator reads at an index which forward kept, one
  /// for `per` elements of the result; 0 for other operators. Tensor 1 is then the operand
  /// with an extent of 1 there, and `inner` what lies within the axis.
  int64_t indexed = 0, inner = 1, per = 1;
};

/// None for operators whose terms are not known, or where shapes and attributes, which may come
/// from a file, do not fit each other. Where several stand for one operator they follow each other.
std::vector<OpTerms> terms_of(const Recording& recording, const TapeEntry& entry);

struct OpShapes {
  const Recording& recording;
  const TapeEntry& entry;
  const Shape& y;
  std::array<const Shape*, 4> operands;  ///< by position; null where absent
};
using OpTermList = std::vector<OpTerms>;
using LoopCoordinates = std::vector<LoopCoordinate>;
OpTermList matmul_terms(const OpShapes& op);
OpTermList linear_terms(const OpShapes& op);
OpTermList convolution_terms(const OpShapes& op);
OpTermList pooling_terms(const OpShapes& op);
/// The terms of windows over images x (N,H,W,C) that give y (N,H_out,W_out,C), by the attributes
/// of pooling.
OpTerms window_terms(const TapeEntry& attributes, const Shape& x, const Shape& y);
bool windows_fit(const TapeEntry& attributes, const Shape& x, const Shape& y);

/// Those of `small` where its axes, from the last on, are those of `large` or 1.
std::optional<LoopCoordinates> broadcast_coordinates(const Shape& small, const Shape& large,
                                                     const LoopCoordinates& of_large);
/// The numbers of an attribute that are to be `count` integers in [low, high]; else empty.
std::vector<int64_t> integers_of(const TapeEntry& entry, std::string_view name, size_t count,
                                 int64_t low, int64_t high);

}  // namespace whisker
