// One batch of training: forward, loss, backward, and when enough batches are accumulated the
// update. It never waits for the device; what came of it lies in the optimizer's StepMemory until
// the host reads it.
//
// Note [Captured steps]
// On a device that can, batches of one shape are copied into fixed tensors and the whole step is
// captured once and replayed from then on. That works because everything that changes from step to
// step lies in device memory (core/step_state.h) and nothing else ever moves: arena slices keep
// their addresses, averages swap contents, the set of trained parameters is fixed with the arena.
// The first batches of a shape run eagerly; each shape that comes again and again (sequences have
// one per bucket of lengths) gets a graph of its own, unless fewer than one batch in
// rarest_captured has it. There are most_shapes at a time: further shapes stay eager until one of
// these has not come for idle_batches and makes room.
#pragma once

#include "core/backend.h"
#include "train/experiment.h"
#include "train/step_trace.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

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
  /// Of recurrent layers, carried into the next batch that continues this one; empty but for a
  /// language model. After a failure those that the failed batch began with. The tensors are the
  /// step's own.
  const CarriedStates& states() const { return states_; }
  /// Begins with these states, made by states() of another run, instead of none.
  void set_states(CarriedStates states) { states_ = std::move(states); }

  bool late_reading() const { return late_reading_; }
  /// How many batches of one shape, each with an update, it takes until all further ones need the
  /// same time and memory: plans are chosen by then, and where steps are captured one was replayed.
  int64_t warm_up_batches() const;
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
  void keep_states(const CarriedStates& last, const int32_t* condition);
  /// A shape of batches: the fixed tensors that its graphs read, once it is captured.
  struct Captured {
    Batch inputs;  // on the device; undefined before the first capture
    std::unique_ptr<CapturedGraph> graphs[2][2];
    int64_t eager_batches = 0;  // run since the shape was first seen, or given up
    int64_t last_used = 0;
    std::unique_ptr<CapturedGraph>& graph_of(Part part) { return graphs[part.first][part.update]; }
  };
  Captured* captured_for(const Batch& batch);
  int64_t batches_before_capture() const;
  bool make_room();

  Experiment& experiment_;
  Backend& backend_;
  TrainStepOptions options_;
  Pass pass_;
  bool late_reading_;
  bool captures_;
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
