// Timed choices as data: which algorithm computes which convolution, product or
// recurrent layer on this GPU.
// Algorithms differ in the last bits, so a run repeats another one bit for bit only with the
// other one's table, and not even then where an algorithm does not repeat itself: some of cuDNN's
// say so, f16 convolutions joined with batch norms do not (docs/cuda.md).
//
// Note [CUDA plan table]
// A table holds for one environment: versions of cuDNN, cuBLASLt and our kernels, GPU. It is JSON,
// one member per convolution, product or recurrent layer with its shapes in words; it is looked up
// by exactly that text, so nothing has to be parsed and unknown rows are merely never found:
//   {"cudnn":91900,"cublas_lt":130100,"kernels":2,"device":"NVIDIA H200",
//    "convolutions":{"forward bf16 x(256,56,56,64) ...":"engine 34 knobs 2:1"},
//    "products":{"bf16 256x512 ...":"5f0a..."},
//    "recurrent":{"lstm bf16 x(128,64,256) ...":"standard","layers lstm bf16 ...":"persistent
//    kernels"}}
// What an algorithm's text means is known to whoever made it; a text that means nothing (any more)
// is as good as none.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace whisker::cuda {

/// Raised whenever a kernel of ours comes or becomes faster, where timing may choose it: what was
/// chosen before is timed again.
inline constexpr int64_t own_kernels = 2;

/// What a choice depends on besides the shapes.
struct PlanEnvironment {
  int64_t cudnn = 0;
  int64_t cublas_lt = 0;
  int64_t kernels = 0;  ///< see own_kernels
  std::string device;
  bool operator==(const PlanEnvironment&) const = default;
};

class PlanTable {
 public:
  /// `environment` is asked once, when rows are read or written as text: asking loads libraries.
  explicit PlanTable(std::function<PlanEnvironment()> environment)
      : ask_environment_(std::move(environment)) {}

  enum class Kind { convolution, product, recurrent };
  /// The algorithm's name, or nullopt.
  std::optional<std::string> find(Kind kind, const std::string& request) const;
  void set(Kind kind, const std::string& request, std::string algorithm);
  void clear();

  /// JSON of all rows; "" when there are none.
  std::string text() const;
  /// Adds the rows of `text`, which win over those here; a table of another environment adds none.
  /// Throws checkpoint, having added nothing, when `text` is neither empty nor a table.
  void add(std::string_view text);

 private:
  using Rows = std::map<std::string, std::string, std::less<>>;
  static constexpr size_t kinds = 3;

  const PlanEnvironment& environment() const;

  std::function<PlanEnvironment()> ask_environment_;
  mutable std::optional<PlanEnvironment> environment_;
  std::array<Rows, kinds> rows_;  // by Kind
};

}  // namespace whisker::cuda
