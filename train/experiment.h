// Everything a run needs, made from one configuration: data, network, optimizer and so on. The
// order matters: classes come from the data, shapes from both, memory last. Parts that need no
// device come first, while the device may still be starting.
#pragma once

#include "core/communicator/communicator.h"
#include "core/nvidia/cuda_library.h"
#include "data/batch_source.h"
#include "optim/ema.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/config/config.h"
#include "train/data/run_data.h"
#include "train/metrics/metrics.h"
#include "train/metrics/objective.h"
#include "train/model/network.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace whisker {

/// A resumed run loads all weights from its checkpoint and does not read init.from again.
enum class StartFrom : uint8_t { initial_weights, checkpoint };

struct Experiment {
  /// The batch size of `config` must be set (settle_batch_size()). Applies resolve_config() unless
  /// `start` is checkpoint. Throws what reading the data, building the model and loading weights
  /// throw. `notes` are messages for the user: fused layers, a new head, frozen parameters. The
  /// ranks of `group` each read their part of every batch; all of them construct one together.
  explicit Experiment(Config config, StartFrom start = StartFrom::initial_weights,
                      std::shared_ptr<RankGroup> group = std::make_shared<RankGroup>());
  Experiment(const Experiment&) = delete;
  Experiment& operator=(const Experiment&) = delete;

  /// Parameters that are frozen until unfreeze_at are trained from now on.
  void unfreeze();
  int64_t batches_per_epoch() const { return train->batches(); }
  WeightsInfo weights_info(int64_t epoch, std::string metrics) const;
  /// The metric that selects the best weights: train.metric, or the task's default. Throws usage
  /// for one that the task does not have.
  Figure best_figure(const Metrics& metrics) const;

  Config config;
  std::shared_ptr<Communicator> ranks;  ///< outlives all that it works on
  Device device;
  std::vector<std::string> notes;
  int64_t initial_batches = 0;       ///< that the statistics of init.from have counted
  std::vector<std::string> details;  ///< for the log: fused operators
  RunData data;                      ///< the data behind `train` and `val`
  std::unique_ptr<BatchSource> train, val;
  std::shared_ptr<ParameterArena> arena;
  std::unique_ptr<Network> network;
  std::unique_ptr<Objective> objective;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Schedule> schedule;
  std::unique_ptr<WeightAverage> average;  ///< null when ema.decay is 0
};

/// The compute dtype of layers on `device`: auto is bf16 on a GPU from compute capability 8.0, f16
/// on an older one, else f32. Throws usage for a precision that the device cannot compute in.
DType compute_dtype(PrecisionKind precision, Device device);
/// The dtype to compute in where `card` is the GPU of a CUDA device.
DType compute_dtype(PrecisionKind precision, Device device, const CudaGpu& card);
/// Number of training examples, rounded up to batches, that batch norms of averaged weights are
/// measured on: see train/loop/average_statistics.h.
inline constexpr int64_t examples_to_measure = 4096;
/// Applies the configuration of `device` (runtime, deterministic) to its backend.
void configure_backend(const Config& config, Device device);
/// Lets `device` time algorithms from now on, for a few seconds in total and no longer than `steps`
/// steps repay, unless the run is deterministic. Call it after the first step, which repeated
/// layers would delay otherwise.
void search_plans(const Config& config, Device device, int64_t steps);

}  // namespace whisker
