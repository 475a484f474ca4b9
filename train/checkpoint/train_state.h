// A run's progress, as a checkpoint stores it in state.json (docs/reference/formats.md).
#pragma once

#include "core/backend/backend.h"
#include "core/backend/step_state.h"
#include "core/io/json.h"
#include "optim/schedule.h"

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

/// Everything about a run that is neither weights nor configuration.
struct TrainState {
  int64_t epoch = 0;            ///< epoch in progress
  int64_t batch = 0;            ///< next batch of that epoch
  int64_t step = 0;             ///< optimizer steps taken: what schedule and log count
  int64_t updates = 0;          ///< of those the ones that changed weights: fewer in f16 only
  double loss_sum = 0;          ///< of the epoch's batches so far, weighted by rows
  int64_t correct = 0;          ///< of the epoch's rows so far
  int64_t rows = 0;             ///< likewise, all of them: examples, a language model's tokens
  double best_metric = 0;       ///< of the weights in best.safetensors
  int64_t best_epoch = -1;      ///< -1: none yet
  int64_t validations = 0;      ///< done
  int64_t validated_step = -1;  ///< of the last validation; -1: none yet, or not known
  double stall_metric = 0;      ///< early stopping: the value to improve on
  int64_t stalled = 0;          ///< validations without improvement
  Schedule::State schedule;
  struct LossScale {  // of f16
    float value = 1;
    int32_t good_steps = 0;
    int32_t skipped_in_row = 0;
  } loss_scale;
  int64_t ema_updates = 0;
  double jpeg_share = -1;        ///< BatchSource::jpeg_share() of the training batches
  double seconds = 0;            ///< of training so far
  uint64_t metrics_bytes = 0;    ///< of metrics.jsonl: a resume cuts it back to this
  uint64_t histogram_bytes = 0;  ///< of histograms.jsonl, likewise
  int64_t epochs = 0;            ///< planned: the horizon of the schedule
  int64_t restart = 0;           ///< schedule.restart
  /// train.time_budget_minutes; below 0 in a run of a version whose schedule did not follow it.
  double time_budget = -1;
  /// The part of the epoch's sums that step lines of metrics.jsonl have reported; below 0: earlier
  /// epochs' sums that the next line will report.
  StepTotals logged;
  int64_t initial_batches = 0;  ///< num_batches_tracked of the weights that the run began with
  std::string data_fingerprint;
  std::string preprocess;  ///< JSON
  std::string plans;       ///< the backend's timed choices, see Backend::export_algorithms
  std::string config;      ///< YAML of all keys that a resume must not change
  /// What decides the bits of results beside the timed choices: see environment_of(). None
  /// in a run of a version that did not record it.
  std::vector<BackendProperty> environment;
  std::string unrepeatable;  ///< why no new run can repeat this one; "": one can

  /// Writes and reads the members of a JSON object. Throws checkpoint for a missing member and for
  /// an impossible value.
  void write(JsonWriter& json) const;
  static TrainState read(const JsonValue& json);
};

}  // namespace whisker
