// Two recordings, or a recording and a file of tensors, tensor by tensor: what `whisker study
// compare` shows.
#pragma once

#include "core/io/safetensors.h"
#include "core/tensor/unit_roundoff.h"
#include "core/trace/recording.h"

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

/// How a tensor of A differs from that of B. An element that is NaN or infinite in one alone
/// differs infinitely.
struct RecordedDifference {
  std::string name;  ///< "3 relu" or "w1", as A calls it
  std::string layer;
  bool gradient = false;  ///< d(loss)/d(tensor)
  Shape shape;
  bool leaf = false;    ///< a parameter or an input
  double absolute = 0;  ///< the largest |a - b|
  double largest = 0;   ///< the largest finite |a| or |b| of the tensor
  double relative =
      0;             ///< the first divided by the second; a leaf's gradient: by the largest of all
  double units = 0;  ///< that, in units of rounding
  int64_t element = -1;  ///< where: row-major; -1 where statistics alone are known
  double a = 0, b = 0;   ///< there
  /// Elements that are 0 on one side alone; at least, of statistics. None of what a step is given.
  int64_t zeros = 0;
};

/// Units of rounding by which steps that are right may differ: chosen above the largest that were
/// seen, as no bound is known. 512 in f32 and f64; 64 in 16 bits, whose sums are f32.
constexpr double usual_tolerance(DType dtype) {
  return unit_roundoff(dtype) > unit_roundoff(DType::f32) ? 64 : 512;
}

struct RecordingComparison {
  std::string a, b;                         ///< titles
  DType dtype = DType::f64;                 ///< the coarsest type of a tensor that is compared
  std::vector<RecordedDifference> tensors;  ///< in A's order, values first, then gradients
  std::vector<std::string> unmatched;       ///< "B alone has 3 cast", "w is (2,3) in A, (3,2) in B"
  int misshapen = 0;                        ///< of these, tensors of another shape
  int reordered = 0;                        ///< tensors of the file that were read as (N,C,H,W)
  int ambiguous = 0;                        ///< ... that would have fitted as (N,H,W,C), too
  int by_statistics = 0;
  int64_t relus = 0;        ///< elements of relus that decided on both sides
  int64_t relus_alike = 0;  ///< of these, those where B followed A: see ReluDecisions

  /// Operators are matched within their layer, by name and shape, in the order in which they ran.
  static RecordingComparison of(const Recording& a, const Recording& b);
  /// Names in the file: a layer (what its last operator gave), "3 relu", a parameter or an input;
  /// with ".grad" its gradient. Throws checkpoint where no name is one of these.
  static RecordingComparison of(const Recording& a, const SafetensorsFile& b);

  /// Half the distance from 1 to the next larger number: 2^-24 in f32.
  double unit() const;
  /// The first tensor that differs by more than `units`, or nullptr.
  const RecordedDifference* first_beyond(double units, bool gradient) const;
  /// No tensor differs by more or in shape, and there are some. Operators of one side alone, as the
  /// casts of bf16, do not count.
  bool agrees(double units) const;

  /// Lines of at most `width` columns (0: no limit), as far as the table can.
  std::string text(double tolerance, size_t width) const;
  std::string json(double tolerance) const;
};

}  // namespace whisker
