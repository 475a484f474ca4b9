// Times of the parts of training steps: layers forward and backward, the loader, the optimizer.
// Measured by the host's clock and, on a GPU, by events in its stream. Written as a file for
// chrome://tracing and ui.perfetto.dev, or summed by layer.
#pragma once

#include "core/autograd/autograd.h"
#include "core/backend/backend.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace whisker {

class TrainStep;

/// One part. Times are milliseconds after the first range began; on a host device, device times
/// equal host times.
struct TraceRange {
  std::string name;
  const char* kind = "";  ///< "step", "forward", "backward", "loader", "update"
  int depth = 0;          ///< ranges around it
  double begin_ms = 0, end_ms = 0;
  double device_begin_ms = 0, device_end_ms = 0;
  double device_ms() const { return device_end_ms - device_begin_ms; }
};

/// Sums over the ranges of one layer that records operators itself.
struct LayerTimes {
  std::string layer;
  double forward_ms = 0, backward_ms = 0;
};

class StepTrace final : public TapeObserver {
 public:
  explicit StepTrace(Device device);

  /// Adds a range for the length of a scope; does nothing when `trace` is null.
  class Range {
   public:
    Range(StepTrace* trace, std::string_view name, const char* kind) : trace_(trace) {
      if (trace_) trace_->begin(std::string(name), kind);
    }
    ~Range() {
      if (trace_) trace_->end();
    }
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;

   private:
    StepTrace* trace_;
  };

  /// Adds this thread's layers and gradients to `trace` during its lifetime; does nothing when
  /// null.
  class Watch {
   public:
    explicit Watch(StepTrace* trace) : previous_(grad_mode.observer) {
      if (trace) grad_mode.observer = trace;
    }
    ~Watch() { grad_mode.observer = previous_; }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    TapeObserver* previous_;
  };

  /// In order of begin; all must have ended. Waits for the device.
  std::vector<TraceRange> ranges() const;
  /// In the order of the forward pass.
  std::vector<LayerTimes> layers() const;
  /// JSON in the Trace Event Format (Google, 2016): complete events, one track for the host and, on
  /// a GPU, one for the device.
  std::string json() const;

  void on_scope_begin(std::string_view layer) override;
  void on_scope_end() override;
  void on_record(const Node& node, Tensors inputs, Tensors outputs) override;
  void on_backward_begin(const Node& node) override;
  void on_backward_end(const Node& node) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Noted {
    TraceRange range;
    int64_t begin_mark = -1, end_mark = -1;
  };
  void begin(std::string name, const char* kind);
  void end();
  double now_ms() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
  }

  Device device_;
  std::unique_ptr<DeviceClock> clock_;  // null on a host device
  Clock::time_point start_;
  std::vector<Noted> noted_;
  std::vector<size_t> open_;                            // indices into noted_
  std::vector<std::string> layers_;                     // scopes that are open
  std::unordered_map<uint64_t, std::string> layer_of_;  // by the sequence of nodes
};

/// train.profile: traces `batches` batches and writes them to the run folder. They follow the
/// warm-up (TrainStep::warm_up_batches), or come earlier in a short run.
class StepProfile {
 public:
  StepProfile(TrainStep& step, Device device, int64_t batches)
      : step_(step), device_(device), batches_(batches) {}

  /// Call before requesting a batch; `left` batches remain, this one included.
  void before_batch(int64_t left);
  /// Returns true after the last batch to trace.
  bool after_batch();
  /// The active trace, or null.
  StepTrace* trace() const { return trace_.get(); }
  /// Ends the trace.
  void stop();
  /// Ends the trace and writes it; returns a message for the user.
  std::string write(const std::filesystem::path& file);

 private:
  TrainStep& step_;
  Device device_;
  int64_t batches_;
  int64_t seen_ = 0, traced_ = 0;
  std::unique_ptr<StepTrace> trace_;
};

}  // namespace whisker
