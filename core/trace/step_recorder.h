// Records one forward and backward pass of its thread's tape while it lives.
#pragma once

#include "core/autograd/observer.h"
#include "core/tensor/device.h"
#include "core/trace/recording.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace whisker {

class DeviceClock;
class ExampleRecorder;
class ReluDecisions;

/// An observer that is told what to call leaves (parameters) and constants (the input images).
class StepObserver : public TapeObserver {
 public:
  virtual void name(const Tensor& tensor, const std::string& text) = 0;
};

class StepRecorder final : public StepObserver {
 public:
  struct Options {
    bool values = false;      ///< of every result and gradient; else shapes, bytes and times alone
    bool zero_units = false;  ///< counted of relu and relu6, fused ones too
    Device device = cpu_device;  ///< whose clock measures: a GPU works on while the host goes ahead
    /// Tensors of more elements have statistics, and their operators an example each.
    int64_t large_above = most_recorded_values;
    ReluDecisions* relus = nullptr;  ///< of relu and relu6, fused ones too; it outlives this
  };
  StepRecorder() : StepRecorder(Options{}) {}
  explicit StepRecorder(const Options& options);
  ~StepRecorder() override;
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

  void name(const Tensor& tensor, const std::string& text) override;
  Recording recording() const;

  void on_save(const Tensor& tensor) override;
  void on_record(const Node& node, Tensors inputs, Tensors outputs) override;
  void on_unrecorded(const char* name, Tensors inputs, Tensors outputs) override;
  void on_scope_begin(std::string_view layer) override;
  void on_scope_end() override;
  void on_backward_begin(const Node& node) override;
  void on_backward_end(const Node& node) override;

 private:
  using Clock = std::chrono::steady_clock;

  struct OpenLayer {
    std::string name;
    size_t first;  // entry
  };

  void add_recomputed(const Node& node, Tensors inputs, Tensors outputs);
  TapeEntry& add_operator(const char* name, Tensors inputs, Tensors outputs);
  TapeOutput output_of(const Tensor& tensor) const;
  TapeInput input_of(const Tensor& operand);
  void add_example(Tensors inputs, Tensors outputs, std::span<const Tensor> kept);
  void describe_saved(TapeEntry& entry, Tensors inputs, Tensors outputs);
  struct Lap {  // marks of a GPU's clock
    int64_t begin = 0, end = -1;
    double ms(const std::vector<double>& marks) const;
  };
  void begin_lap();
  double lap_ms(Lap& lap);

  Options options_;
  std::unique_ptr<ExampleRecorder> examples_;  // null without values
  TapeObserver* previous_;
  std::string attributes_;  // of the operator that is being recorded
  std::string* previous_attributes_;
  std::vector<TapeEntry> entries_;
  std::unordered_map<uint64_t, size_t> by_node_;          // Node::sequence() -> entry
  std::unordered_map<std::string, TapeInput> by_memory_;  // of tensors without a node
  std::unordered_map<uint64_t, std::string> leaf_names_;
  std::unordered_map<std::string, std::string> constant_names_;
  std::unordered_map<const Storage*, size_t> kept_storages_;  // by which entry
  std::vector<Tensor> alive_;    // what by_memory_ knows: their addresses must not be used again
  std::vector<Tensor> pending_;  // saved by the operator that is being recorded
  std::vector<OpenLayer> layers_;
  size_t again_ = 0, again_end_ = 0;  // entries whose operators backward is running again
  std::vector<bool> had_gradient_;    // the inputs of the node whose backward runs
  int backward_steps_ = 0;
  int backward_depth_ = 0;
  Clock::time_point mark_;
  std::unique_ptr<DeviceClock> clock_;  // null on the host
  int64_t device_mark_ = 0;
  std::vector<Lap> forward_laps_, backward_laps_;  // by entry, shorter where the last have none
};

}  // namespace whisker
