// Timed choices as data: which algorithm computes which convolution. Direct and Winograd differ in
// the last bits: a run repeats another one bit for bit only with the other one's table.
//
// Note [CPU autotune table]
// A table is valid for one environment: version of oneDNN, instruction set, number of threads. It
// is JSON with one member per convolution. The key is a text that identifies the request; lookup
// compares it as a whole, so unknown rows are never found:
//   {"library":"oneDNN 2.6.3","isa":39,"threads":2,
//    "convolutions":{"forward x(8,56,56,64) blocked w(64,3,3,64) ...":"winograd"}}
#pragma once

#include "core/cpu/onednn/dnnl_convolution.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace whisker::cpu {

class AutotuneTable {
 public:
  std::optional<ConvolutionAlgorithm> find(const ConvolutionRequest& request) const;
  void set(const ConvolutionRequest& request, ConvolutionAlgorithm algorithm);
  void clear() { rows_.clear(); }

  /// JSON of all rows for this process's environment; "" when there are none.
  std::string text() const;
  /// Adds the rows of `text`, which replace existing ones; ignores a table of another environment.
  /// Throws checkpoint, having added nothing, when `text` is neither empty nor a table.
  void add(std::string_view text);

 private:
  std::map<std::string, ConvolutionAlgorithm, std::less<>> rows_;
};

}  // namespace whisker::cpu
