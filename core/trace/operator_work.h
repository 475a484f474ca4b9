// What the operators of a recorded step compute and move, worked out from shapes: the numbers of
// `whisker study roofline`.
//
// Note [Operator work]
// A multiply-add is two operations. An element of any other result is one, of a softmax five (the
// maximum, a difference, an exponential, a sum, a quotient), of a norm in training eight (the mean
// one, the deviation three, normalising two, scale and shift two); what only moves counts none. A
// fused operator counts all that it does. A pass reads each operand and what was kept, and writes
// each result, once: caches that lose what they read make it move more.
#pragma once

#include "core/trace/recording.h"

#include <algorithm>
#include <string>

namespace whisker {

/// One pass: two operations per multiply-add, bytes read and written.
struct PassWork {
  std::string what;
  double operations = 0, bytes = 0;
  /// Operations per byte.
  double intensity() const { return bytes > 0 ? operations / bytes : 0; }
  double floor_ms(const Ceilings& ceilings) const {
    return std::max(operations / ceilings.tflops / 1e9, bytes / ceilings.gb_per_s / 1e6);
  }
};

struct OperatorWork {
  PassWork forward, backward;  ///< nothing in bytes: a view, or nothing runs
};

/// The work of the operator `recording.entries[entry]`. See Note [Operator work].
OperatorWork operator_work(const Recording& recording, size_t entry);

}  // namespace whisker
