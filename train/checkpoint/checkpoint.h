// A run's weights on disk: best.safetensors for use, last/ for resuming.
//
// Note [Commit point]: last/ holds model-<step>.safetensors, optim-<step>.safetensors and
// state.json. The two are written first; state.json, which names them with sizes and hashes, is
// renamed last and makes the checkpoint exist. Older generations are removed after that.
#pragma once

#include "core/io/safetensors.h"
#include "layers/module.h"
#include "layers/weights/weights.h"
#include "optim/ema.h"
#include "optim/optimizer.h"
#include "train/checkpoint/train_state.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

/// Host copies of tensors to be written, in the layout of files.
using Snapshot = std::vector<WeightsTensor>;

/// Moments ("exp_avg.NAME"), and the average ("ema.NAME") when there is one.
Snapshot snapshot_optimizer(const ParameterArena& arena, const Optimizer& optimizer,
                            const WeightAverage* average);

/// Appends the carried states of recurrent layers ("state.h.PATH"), and reads them back.
void add_states(const CarriedStates& states, Snapshot& snapshot);
CarriedStates restore_states(const SafetensorsFile& file, Device device);

/// Name of the first tensor with a NaN or Inf; "" when all are finite.
std::string first_non_finite(const Snapshot& snapshot);

/// Writes snapshots on its own thread, one after the other, while training continues.
class CheckpointWriter {
 public:
  CheckpointWriter(std::filesystem::path last, int64_t keep);
  ~CheckpointWriter();

  void save_last(Snapshot model, Snapshot optimizer, const TrainState& state);
  /// `after` writes a file that a run can do without, beside the weights: what it throws becomes a
  /// take_note().
  void save_best(std::filesystem::path path, Snapshot model,
                 std::map<std::string, std::string> metadata, std::function<void()> after = {});
  /// A message for the user about such files, once they were waited for; "" for none.
  std::string take_note() { return std::exchange(note_, ""); }
  /// Runs `job`, which throws nothing, on that thread after what is to be saved so far.
  void after_saving(std::function<void()> job);
  /// Waits until everything is on disk; rethrows the first failure.
  void finish();

 private:
  void enqueue(std::function<std::string()> job);

  std::filesystem::path last_;
  int64_t keep_;
  std::future<std::string> running_;  // gives a note
  std::string note_;
};

/// Reads last/ back: state, and the two files checked against their sizes and hashes. Throws
/// checkpoint, naming the file, when something is missing or damaged.
struct LoadedCheckpoint {
  TrainState state;
  SafetensorsFile model;
  SafetensorsFile optimizer;
};
LoadedCheckpoint load_last(const std::filesystem::path& last);

/// Overwrites weights, buffers, moments and average; all or nothing.
void restore(const LoadedCheckpoint& checkpoint, ParameterArena& arena, Optimizer& optimizer,
             WeightAverage* average);

}  // namespace whisker
