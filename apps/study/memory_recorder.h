// Where a step's memory goes: the allocator's books after each operator, forwards and backwards,
// and what each operator keeps for backward. No tensor is held, so that the step takes what it
// takes unobserved.
#pragma once

#include "core/memory/memory.h"
#include "core/trace/step_recorder.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace whisker {

class Backend;

/// The name of what leaves do in backward; several in a row are one sample.
inline constexpr std::string_view accumulates = "accumulate";

/// What ran between two looks at the books: an operator, or the optimizer's update.
struct MemorySample {
  std::string name, layer;
  bool backward = false;
  int64_t keeps = 0;                   ///< bytes that it alone keeps for backward; 0 backward
  int64_t recomputable = 0;            ///< of those, what its block of layers made
  int64_t kept = 0;                    ///< by all operators, once it is over
  int64_t peak = 0, peak_tensors = 0;  ///< while it ran: see MemoryStats
  MemoryStats after = {};              ///< once it is over
};

class MemoryRecorder final : public StepObserver {
 public:
  explicit MemoryRecorder(Device device);
  ~MemoryRecorder() override;
  MemoryRecorder(const MemoryRecorder&) = delete;
  MemoryRecorder& operator=(const MemoryRecorder&) = delete;

  /// A tensor that was there before the step: nobody keeps it.
  void name(const Tensor& tensor, const std::string& text) override;
  /// What happened since the last sample was the work of `name`.
  MemorySample& sample(const std::string& name, bool backward = false);
  std::vector<MemorySample> take() { return std::move(samples_); }

  void on_save(const Tensor& tensor) override;
  void on_record(const Node& node, Tensors inputs, Tensors outputs) override;
  void on_unrecorded(const char* name, Tensors inputs, Tensors outputs) override;
  void on_scope_begin(std::string_view layer) override { layers_.emplace_back(layer); }
  void on_scope_end() override { layers_.pop_back(); }
  void on_backward_begin(const Node&) override { ++backward_depth_; }
  void on_backward_end(const Node& node) override;

 private:
  struct Kept {
    std::string layer;
    std::vector<const Storage*> storages;
    int64_t bytes = 0;
  };
  void note_results(Tensors outputs, const std::string& layer);

  Backend& backend_;
  TapeObserver* previous_;
  std::vector<MemorySample> samples_;
  std::vector<std::string> layers_;
  std::vector<Tensor> pending_;                              // saved by the next operator
  std::unordered_map<const Storage*, std::string> made_in_;  // the block that made a tensor
  std::unordered_set<const Storage*> counted_;               // not to be counted again
  std::unordered_map<uint64_t, Kept> by_node_;               // Node::sequence()
  int64_t kept_ = 0;
  int backward_depth_ = 0;
};

/// "features.3" of "features.3.conv": see block_of().
std::string block_of_layer(const std::string& layer);

}  // namespace whisker
