// One batch of training: forward, loss, backward, and the update once enough batches are
// accumulated. Never waits for the device; results stay in the optimizer's StepMemory until the
// host reads them.
//
// Note [Captured steps] On a device that supports it, batches of one shape are copied into fixed
// tensors, and the whole step is captured once and then replayed. That works because everything
// that changes from step to step lies in device memory (core/backend/step_state.h) and nothing else
// ever moves: arena slices keep their addresses, averages swap contents, the set of trained
// parameters is fixed with the arena. The first batches of a shape run eagerly. Each repeated shape
// (sequences have one per bucket of lengths) gets its own graph, unless fewer than one batch in
// rarest_captured has it. At most most_shapes exist at a time: further shapes stay eager until one
// of them has not been used for idle_batches and is dropped. Of several ranks, all replay or none,
// as their collectives belong together: a batch that is not full runs eagerly on each.
//
// Note [Accumulated batches] An update of several batches is that of one batch with all their rows:
// a batch counts by its weight, which is its rows' number, or with class weights the sum of theirs.
// The total is known after the last batch only. So each batch's gradients are multiplied by its
// weight as they are added up, and the update divides by StepState::group_weight, the sum of the
// weights. Weights are told in full batches (train.batch_size rows), so that gradients keep their
// size in f16. Everything is in device memory, for Note [Captured steps].
#pragma once

#include "core/backend/backend.h"
#include "core/backend/recurrent_operands.h"
#include "train/experiment.h"
#include "train/loop/gradient_sum.h"
#include "train/loop/step_trace.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace whisker {

/// Position of a batch in its run.
struct BatchPlace {
  int64_t number = 0;          ///< since training began, from 1: keys the dropout masks
  double learning_rate = 0;    ///< of the update at its end, if any
  bool last_of_epoch = false;  ///< an update follows, however few batches were accumulated
  bool eager = false;  ///< not replayed, so that the thread's observer sees it; on all ranks
};

struct TrainStepOptions {
  /// Replaces Backend::capture of the experiment's device, so that tests can capture on the host.
  std::function<std::unique_ptr<CapturedGraph>(const std::function<void()>&)> capture = {};
  /// Whether the trainer reads results every log_every steps instead of after each one; unset: on a
  /// GPU.
  std::optional<bool> late_reading = {};
};

class TrainStep {
 public:
  explicit TrainStep(Experiment& experiment, TrainStepOptions options = {});
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;

  /// The next batch begins an update; totals continue from these.
  void begin(const StepTotals& totals);
  /// Captures anew: other parameters are trained from now on.
  void forget_captures();
  /// Whether a batch that runs now will end in an update.
  bool ends_update(const BatchPlace& place) const {
    return accumulated_ + 1 == experiment_.config.train.accumulate || place.last_of_epoch;
  }
  /// Returns whether the batch ended in an update (which a non-finite value may have prevented).
  bool run(const Batch& batch, const BatchPlace& place);
  /// Forward alone, as in training, but with the same dropout for each batch: leaves statistics of
  /// the batch pending in batch norms. Nothing without rows.
  void measure(const Batch& batch);
  /// Waits for everything so far.
  StepState read() const { return experiment_.optimizer->memory().read(); }

  /// Steps run eagerly from now on, each part a range of `trace`; null: as before.
  void set_trace(StepTrace* trace) { trace_ = trace; }
  /// States of recurrent layers, carried to the next batch that continues this one; empty except
  /// for a language model. After a failure, the states before the failed batch. The step owns the
  /// tensors.
  const CarriedStates& states() const { return states_; }
  /// Begins with these states, made by states() of another run, instead of none.
  void set_states(CarriedStates states) { states_ = std::move(states); }

  bool late_reading() const { return late_reading_; }
  /// Number of batches of one shape, each with an update, until time and memory are steady:
  /// algorithms are chosen and, with captured steps, one has been replayed.
  int64_t warm_up_batches() const;
  /// Number of replayed batches.
  int64_t replays() const { return replays_; }

 private:
  /// What a batch does beside forward and backward.
  struct Part {
    bool first = false;   // overwrites the gradients
    bool update = false;  // ends in an update
  };
  void enqueue(const Batch& batch, Part part);
  void write_weights(const Batch& batch);
  void add_weight(const Tensor& class_weight, Part part);
  void forward_and_backward(const Batch& batch, CarriedStates& states, Part part);
  bool replay(const Batch& batch, Part part);
  void keep_states(const CarriedStates& last, const int32_t* condition);
  /// A shape of batches: its graphs and the fixed tensors that they read.
  struct Captured {
    Batch inputs;  // on the device; undefined before the first capture
    std::unique_ptr<CapturedGraph> graphs[2][2];
    int64_t eager_batches = 0;  // run since the shape was first seen, or given up
    int64_t last_used = 0;
    std::unique_ptr<CapturedGraph>& graph_of(Part part) { return graphs[part.first][part.update]; }
  };
  Captured* captured_for(const Batch& batch);
  int64_t batches_before_capture() const;
  bool evict_shape();

  Experiment& experiment_;
  Backend& backend_;
  TrainStepOptions options_;
  Pass pass_;
  GradientSum gradient_sum_;
  // f32 (), in one memory; undefined for one rank whose updates are of one batch.
  Tensor part_weight_;   // multiplies the gradients of this rank's rows: see Note [Weighted ranks]
  Tensor batch_weight_;  // that of all ranks' rows: see Note [Accumulated batches]
  NormRanks norm_ranks_;
  bool late_reading_;
  bool captures_;
  bool accumulates_;
  bool stepped_ = false;
  int64_t accumulated_ = 0;  // batches since the last update
  bool carries_;             // states, from batch to batch
  CarriedStates states_;     // fixed tensors once there are any
  std::map<std::string, Captured> shapes_;
  int64_t batches_ = 0;        // looked up in shapes_
  bool written_into_ = false;  // the loader writes into the tensors of one of them
  int64_t replays_ = 0;
  StepTrace* trace_ = nullptr;
};

}  // namespace whisker
