// Timed choices as data: which algorithm computes which request on this device. Algorithms differ
// in the last bits: a run repeats another one bit for bit only with the other one's table, and only
// if each algorithm is deterministic. Some of cuDNN's are not.
//
// Note [Autotune table]
// A table is valid for one environment: on a GPU its name, the versions of cuDNN and cuBLASLt and
// of the own kernels; on a CPU the version of oneDNN, the instruction set and the number of
// threads. It is JSON: the environment, then one object for each kind of request. A key is a text
// that identifies the request; lookup compares it as a whole, so unknown rows are never found:
//   {"cudnn":91900,"cublas_lt":130100,"kernels":2,"device":"NVIDIA H200",
//    "convolutions":{"forward bf16 x(256,56,56,64) ...":"engine 34 knobs 2:1"},
//    "products":{"bf16 256x512 ...":"5f0a..."}}
//   {"library":"oneDNN 2.6.3","isa":39,"threads":2,
//    "convolutions":{"forward x(8,56,56,64) blocked w(64,3,3,64) ...":"winograd"}}
// The class that chose an algorithm parses its name. A name without meaning is refused where the
// table is told which names there are, and else counts as no row.
#pragma once

#include "core/error.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace whisker {

/// A library does not support what was asked: another algorithm computes it.
class Unsupported : public Error {
 public:
  explicit Unsupported(const std::string& message) : Error(ErrorKind::device, message) {}
};

class AutotuneTable {
 public:
  /// What choices depend on besides the request: names and values.
  using Environment = std::vector<std::pair<std::string, std::variant<int64_t, std::string>>>;

  /// Calls `environment` when rows are read or written as text: it may load libraries. `names` are
  /// those of all algorithms; none: they are not checked.
  AutotuneTable(std::vector<std::string> kinds, std::function<Environment()> environment,
                std::vector<std::string> names = {})
      : kinds_(std::move(kinds)), environment_(std::move(environment)), names_(std::move(names)) {}

  /// The algorithm's name, or nullopt. `kind` is one of the table's.
  std::optional<std::string> find(std::string_view kind, const std::string& request) const;
  void set(const std::string& kind, const std::string& request, std::string algorithm);
  void clear() { rows_.clear(); }

  /// Keeps a line about an algorithm that failed when it was timed, until they are taken; at most
  /// 100, since a program may never take them.
  void add_failure(std::string line) {
    if (failures_.size() < 100) failures_.push_back(std::move(line));
  }
  std::vector<std::string> take_failures() { return std::exchange(failures_, {}); }

  /// JSON of all rows; "" when there are none.
  std::string text() const;
  /// Adds the rows of `text`, which replace existing ones; ignores a table of another environment.
  /// Throws checkpoint, having added nothing, when `text` is neither empty nor a table.
  void add(std::string_view text);

 private:
  using Rows = std::map<std::string, std::string, std::less<>>;

  std::vector<std::string> kinds_;
  std::function<Environment()> environment_;
  std::vector<std::string> names_;
  std::map<std::string, Rows, std::less<>> rows_;  // by kind
  std::vector<std::string> failures_;
};

}  // namespace whisker
