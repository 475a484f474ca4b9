// How near each operator of a recorded step comes to the roofline (Williams, Waterman and Patterson
// 2009): the lower of the rate of large products and its intensity times the rate of large copies.
#pragma once

#include "core/trace/operator_work.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// One operator forwards or backwards, or all of a layer.
struct RooflinePass {
  int number = 0;           ///< TapeEntry::number; 0 of a layer
  std::string name, layer;  ///< "" as the name of a layer's
  bool backward = false;
  PassWork work = {};
  double ms = 0;        ///< measured
  double floor_ms = 0;  ///< at the ceilings

  /// The fraction of the ceiling, 1 at it; above 1 where operands were still in caches.
  double fraction() const { return ms > 0 ? floor_ms / ms : 0; }
};

struct RooflineReport {
  std::string title;
  std::string times;  ///< where the times come from
  Ceilings ceilings;
  std::vector<RooflinePass> passes;  ///< forwards in order, then backwards

  /// A report of passes that compute or move something; `recording.ceilings` are there.
  static RooflineReport of(const Recording& recording, std::string times);
  RooflineReport by_layer() const;

  /// "compute", "memory" or "overhead": what takes most of the pass at the ceilings.
  std::string_view bound(const RooflinePass& pass) const;
  /// Passes that take 1 % of the time and stay below a fifth of their ceiling, the longest first.
  std::vector<size_t> far_below() const;
  /// Why one of them is: a sentence.
  std::string reason(const RooflinePass& pass) const;

  /// Lines of at most `width` columns (0: no limit), as far as the table can.
  std::string text(size_t width) const;
  std::string json() const;
  std::string svg() const;

 private:
  double milliseconds() const;
};

/// Whether RooflineReport::svg() made the content, and nobody changed it.
bool is_roofline_svg(std::string_view content);

}  // namespace whisker
