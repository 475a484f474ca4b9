// OperatorParts of fused operators that stand alone: a head of attention, a channel of norms, a
// small recurrent layer as it is. Internal to core/trace.
#pragma once

#include "core/tensor/tensor.h"
#include "core/trace/recording.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace whisker {

// Which elements of a tensor a part of a fused operator has: columns of the last axis, in a range
// of its rows.
struct OperatorPart {
  Shape shape;
  std::vector<int64_t> elements;
};

/// The parts of a fused operator's tensors, its operands as in entry.inputs; or why it has none
/// that is small enough.
struct OperatorParts {
  std::vector<OperatorPart> operands, results;
  std::string why_not;
};
OperatorParts parts_of(const TapeEntry& entry, std::span<const Tensor* const> inputs,
                       std::span<const Tensor* const> outputs);

/// "no example of dw: ...", and why of a sum or mean over too many.
std::string no_example(const std::string& name, const std::string& why);
std::string too_many(const char* what, int64_t count);

}  // namespace whisker
