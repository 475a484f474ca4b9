// Timed choices as data: which algorithm computes which convolution. Direct and Winograd differ in
// the last bits, so a run repeats another one bit for bit only with the other one's table.
//
// Note [Plan table]
// A table holds for one environment: version of oneDNN, instruction set, number of threads. It is
// JSON, one member per convolution with its shapes and layouts in words; a convolution is looked up
// by exactly that text, so that nothing has to be parsed and unknown rows are merely never found:
//   {"library":"oneDNN 2.6.3","isa":39,"threads":2,
//    "convolutions":{"forward x(8,56,56,64) blocked w(64,3,3,64) ...":"winograd"}}
#pragma once

#include "core/cpu/dnnl_convolution.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace whisker::cpu {

class PlanTable {
 public:
  std::optional<ConvolutionAlgorithm> find(const ConvolutionRequest& request) const;
  void set(const ConvolutionRequest& request, ConvolutionAlgorithm algorithm);
  void clear() { rows_.clear(); }

  /// JSON of all rows for this process's environment; "" when there are none.
  std::string text() const;
  /// Adds the rows of `text`, which win over those here; a table of another environment adds none.
  /// Throws checkpoint, having added nothing, when `text` is neither empty nor a table.
  void add(std::string_view text);

 private:
  std::map<std::string, ConvolutionAlgorithm, std::less<>> rows_;
};

}  // namespace whisker::cpu
