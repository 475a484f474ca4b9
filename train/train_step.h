// One batch of training: forward, loss, backward, and when enough batches are accumulated the
// update. It never waits for the device; what came of it lies in the optimizer's StepMemory until
// the host reads it.
//
// Note [Captured steps]
// On a device that can, batches of one shape are copied into fixed tensors and the whole step is
// captured once and replayed from then on. That works because everything that changes from step to
// step lies in device memory (core/step_state.h) and nothing else ever moves: arena slices keep
// their addresses, averages swap contents, the set of trained parameters is fixed with the arena.
// The first batches of a shape run eagerly, as does an odd one in between; a new shape that stays
// is captured afresh.
#pragma once

#include "core/backend.h"
#include "train/experiment.h"
#include "train/step_trace.h"

#include <functional>
#include <memory>
#include <optional>

namespace whisker {

/// Where a batch stands in its run.
struct BatchPlace {
  int64_t number = 0;          ///< since training began, from 1: keys the masks of dropout
  double learning_rate = 0;    ///< of the update that it may end in
  bool last_of_epoch = false;  ///< an update follows, however few batches were accumulated
};

struct TrainStepOptions {
  /// Stands in for Backend::capture of the experiment's device; tests capture on the host with it.
  std::function<std::unique_ptr<CapturedGraph>(const std::function<void()>&)> capture = {};
  /// Whether the trainer reads results every log_every steps instead of after each one; unset: on a
  /// GPU.
  std::optional<bool> late_reading = {};
  /// Whether the loss is multiplied by StepState::loss_scale; unset: in f16.
  std::optional<bool> scaled_loss = {};
};

class TrainStep {
 public:
  explicit TrainStep(Experiment& experiment, TrainStepOptions options = {});
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  /// The next batch begins an update; totals go on from these.
  void begin(const StepTotals& totals);
  /// Returns whether the batch ended in an update (which a failure may have kept from happening).
  bool run(const Batch& batch, const BatchPlace& place);
  /// Waits for everything so far.
  StepState read() const { return experiment_.optimizer->memory().read(); }

  /// Steps run eagerly from now on, each part a range of `trace`; null: as before.
  void set_trace(StepTrace* trace) { trace_ = trace; }

  bool late_reading() const { return late_reading_; }
  /// Batches that were replayed.
  int64_t replays() const { return replays_; }

 private:
  /// What a batch does besides forward and backward.
  struct Part {
    bool first = false;   // overwrites the gradients
    bool update = false;  // ends in an update
  };
  void enqueue(const Batch& batch, Part part);
  bool replay(const Batch& batch, Part part);
  bool fits(const Batch& batch) const;
  bool make_inputs(const Batch& batch);
  std::unique_ptr<CapturedGraph>& graph_of(Part part) { return graphs_[part.first][part.update]; }

  Experiment& experiment_;
  Backend& backend_;
  TrainStepOptions options_;
  Pass pass_;
  bool late_reading_;
  bool captures_;
  bool stepped_ = false;
  int64_t accumulated_ = 0;  // batches since the last update
  Batch inputs_;             // fixed tensors on the device; undefined before the first capture
  std::unique_ptr<CapturedGraph> graphs_[2][2];
  Shape eager_shape_;          // of most batches since the last replay
  int64_t eager_batches_ = 0;  // by how many they lead
  int64_t replays_ = 0;
  StepTrace* trace_ = nullptr;
};

}  // namespace whisker
