// Times of the parts of training steps: layers forward and backward, the loader, the optimizer. On
// the host by the clock, on a GPU by marks in its own order of work. Written as a file that
// chrome://tracing and ui.perfetto.dev show, or summed up by layer.
#pragma once

#include "core/autograd.h"
#include "core/backend.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace whisker {

/// One part. Times are milliseconds after the first range began; those of the device equal those of
/// the host where it is one.
struct TraceRange {
  std::string name;
  const char* kind = "";  ///< "step", "forward", "backward", "loader", "update"
  int depth = 0;          ///< ranges around it
  double begin_ms = 0, end_ms = 0;
  double device_begin_ms = 0, device_end_ms = 0;
  double device_ms() const { return device_end_ms - device_begin_ms; }
};

/// Sums over the ranges of one layer that has operators of its own.
struct LayerTimes {
  std::string layer;
  double forward_ms = 0, backward_ms = 0;
};

class StepTrace final : public TapeObserver {
 public:
  explicit StepTrace(Device device);

  /// A part for the length of a scope; nothing when `trace` is null.
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

  /// Layers and gradients of this thread become ranges of `trace` while one lives; nothing happens
  /// when it is null.
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

  /// In the order in which they began; all that were begun must have ended. Waits for the device.
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

}  // namespace whisker
