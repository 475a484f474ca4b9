// Where a run stands, as a checkpoint stores it in state.json (docs/formats.md).
#pragma once

#include "core/io/json.h"
#include "optim/schedule.h"

#include <cstdint>
#include <string>

namespace whisker {

/// Everything about a run that is neither weights nor configuration.
struct TrainState {
  int64_t epoch = 0;        ///< the one in progress
  int64_t batch = 0;        ///< next batch of that epoch
  int64_t step = 0;         ///< optimizer steps taken: what schedule and log count
  int64_t updates = 0;      ///< of those the ones that changed weights: fewer in f16 only
  double loss_sum = 0;      ///< of the epoch's batches so far, weighted by rows
  int64_t correct = 0;      ///< of the epoch's rows so far
  int64_t rows = 0;         ///< likewise, all of them: examples, a language model's tokens
  double best_metric = 0;   ///< of the weights in best.safetensors
  int64_t best_epoch = -1;  ///< -1: none yet
  int64_t validations = 0;  ///< done
  double stall_metric = 0;  ///< early stopping: what has to be improved on
  int64_t stalled = 0;      ///< validations without improvement
  Schedule::State schedule;
  struct LossScale {  // of f16
    float value = 1;
    int32_t good_steps = 0;
    int32_t skipped_in_row = 0;
  } loss_scale;
  int64_t ema_updates = 0;
  double jpeg_share = -1;      ///< BatchSource::jpeg_share() of the training batches
  double seconds = 0;          ///< of training so far
  uint64_t metrics_bytes = 0;  ///< of metrics.jsonl: a resume cuts it back to this
  int64_t epochs = 0;          ///< planned: the horizon of the schedule
  std::string data_fingerprint;
  std::string preprocess;  ///< JSON
  std::string plans;       ///< the backend's timed choices, see Backend::export_plans
  std::string config;      ///< YAML of everything that a resume must not change

  /// As members of the object that `json` is in, and back. Throws checkpoint for a missing one.
  void write(JsonWriter& json) const;
  static TrainState read(const JsonValue& json);
};

}  // namespace whisker
