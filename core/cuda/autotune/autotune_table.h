// Timed choices as data: which algorithm computes which convolution, gemm or recurrent layer on
// this GPU. Algorithms differ in the last bits: a run repeats another one bit for bit only with the
// other one's table, and only if each algorithm is deterministic. Some of cuDNN's are not.
//
// Note [CUDA autotune table]
// A table is valid for one environment: GPU, versions of cuDNN and cuBLASLt, and own_kernels. It is
// JSON with one member per convolution, gemm ("products") or recurrent layer. The key is a text
// that identifies the request; lookup compares it as a whole, so unknown rows are never found:
//   {"cudnn":91900,"cublas_lt":130100,"kernels":2,"device":"NVIDIA H200",
//    "convolutions":{"forward bf16 x(256,56,56,64) ...":"engine 34 knobs 2:1"},
//    "products":{"bf16 256x512 ...":"5f0a..."},
//    "recurrent":{"lstm bf16 x(128,64,256) ...":"standard","layers lstm bf16 ...":"persistent
//    kernels"}}
// The class that chose an algorithm parses its text; a text without meaning counts as no row.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace whisker::cuda {

/// Version of Whisker's kernels and of the table's words: raise it when a kernel is added or
/// becomes faster, or a word changes, so that earlier choices are timed again.
inline constexpr int64_t own_kernels = 6;

/// What a choice depends on besides the request.
struct AutotuneEnvironment {
  int64_t cudnn = 0;
  int64_t cublas_lt = 0;
  int64_t kernels = 0;  ///< see own_kernels
  std::string device;
  bool operator==(const AutotuneEnvironment&) const = default;
};

class AutotuneTable {
 public:
  /// Calls `environment` once, when rows are read or written as text: it loads libraries.
  explicit AutotuneTable(std::function<AutotuneEnvironment()> environment)
      : ask_environment_(std::move(environment)) {}

  enum class Kind { convolution, gemm, recurrent };
  /// The algorithm's name, or nullopt.
  std::optional<std::string> find(Kind kind, const std::string& request) const;
  void set(Kind kind, const std::string& request, std::string algorithm);
  void clear();

  /// JSON of all rows; "" when there are none.
  std::string text() const;
  /// Adds the rows of `text`, which replace existing ones; ignores a table of another environment.
  /// Throws checkpoint, having added nothing, when `text` is neither empty nor a table.
  void add(std::string_view text);

 private:
  using Rows = std::map<std::string, std::string, std::less<>>;
  static constexpr size_t kinds = 3;

  const AutotuneEnvironment& environment() const;

  std::function<AutotuneEnvironment()> ask_environment_;
  mutable std::optional<AutotuneEnvironment> environment_;
  std::array<Rows, kinds> rows_;  // by Kind
};

}  // namespace whisker::cuda
