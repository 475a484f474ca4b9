// Everything a run needs, made from one configuration: data, network, optimizer and what goes with
// it. Order matters and is kept here: classes come from the data, shapes from both, memory last;
// and what needs no device comes first, while the device may still be starting.
#pragma once

#include "core/cuda_library.h"
#include "data/batch_source.h"
#include "optim/ema.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/config.h"
#include "train/metrics.h"
#include "train/network.h"
#include "train/objective.h"
#include "train/run_data.h"

#include <memory>
#include <string>
#include <vector>

namespace whisker {

/// A resumed run takes all weights from its checkpoint: init.from is not read again, it may be
/// gone.
enum class StartFrom : uint8_t { initial_weights, checkpoint };

struct Experiment {
  /// `config` is resolved: the model that `from_weights` named and the batch size that `auto` found
  /// stand there afterwards. Throws what reading the data, building the model and loading weights
  /// throw. `notes` says in sentences what a person should know: fused layers, a new head, frozen
  /// parameters.
  explicit Experiment(Config config, StartFrom start = StartFrom::initial_weights);
  Experiment(const Experiment&) = delete;
  Experiment& operator=(const Experiment&) = delete;

  int64_t batches_per_epoch() const { return train->batches(); }
  WeightsInfo weights_info(int64_t epoch, std::string metrics) const;
  /// The figure that makes the best weights: train.metric, or the task's own. Throws usage for one
  /// that the task does not have.
  Figure best_figure(const Metrics& metrics) const;

  Config config;
  Device device;
  std::vector<std::string> notes;
  std::vector<std::string> details;  ///< for the log: operators that are joined
  RunData data;                      ///< what `train` and `val` are batches of
  std::unique_ptr<BatchSource> train, val;
  std::shared_ptr<ParameterArena> arena;
  std::unique_ptr<Network> network;
  std::unique_ptr<Objective> objective;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Schedule> schedule;
  std::unique_ptr<WeightAverage> average;  ///< null when ema.decay is 0
};

/// The device that `text` (auto, cpu, cuda, ...) means here.
Device resolve_device(const std::string& text);
/// What layers compute in on `device`: auto is bf16 on a GPU from compute capability 8.0, f16 on an
/// older one, else f32. `card` is the GPU of a CUDA device. Throws usage for a precision that the
/// device cannot train in.
DType compute_dtype(PrecisionKind precision, Device device, const CudaGpu& card = {});
/// Hands what the configuration says of `device` (runtime, deterministic) to its backend.
void configure_backend(const Config& config, Device device);
/// Lets `device` time algorithms from now on, for seconds in all and no longer than pays in `steps`
/// steps, unless the run is deterministic. Not before the first step: layers that come back within
/// it would make it wait.
void search_plans(const Config& config, Device device, int64_t steps);
/// The model section itself, or for `from_weights` the one in the weights file init.from.
YamlNode model_section(const Config& config);

}  // namespace whisker
