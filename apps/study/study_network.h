// The network of a configuration with a random batch (images, tokens, sequences of numbers), for
// recording its tape. Needs no data and, without init.from, no weights file.
#pragma once

#include "core/parameters/parameters.h"
#include "core/trace/step_recorder.h"
#include "layers/builder/model_builder.h"
#include "optim/ema.h"
#include "optim/optimizer.h"
#include "train/config/config.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace whisker {

/// Overrides of the configuration; 0 keeps its value.
struct StudyOptions {
  int64_t batch = 0;
  int64_t classes = 0;  ///< 0: those of the data in data.train, or 2
  int64_t image_size = 0;
  int64_t steps = 0;          ///< of sequences
  bool cells = false;         ///< run recurrent layers step by step, in plain operators
  TensorOptions tensor = {};  ///< device, and what layers compute in
};

/// A training step that runs as often as it is asked for.
struct StudyStep {
  std::string title;
  std::string assumed = {};  ///< about its values, a line; "" of a formula
  Device device = {};
  DType dtype = DType::f32;  ///< that it computes in
  std::function<void(StepObserver&)> run = {};
  std::function<void()> add_optimizer = {};  ///< before the first update; none of a formula
  std::function<void()> update = {};
  int64_t predicted_bytes = 0;  ///< what `summary` predicts; 0 of a formula
};

class StudyNetwork {
 public:
  /// The weights are those of init.from, or those that training begins with. Throws what
  /// build_model and load_initial_weights throw, and usage for patterns in `freeze` that match
  /// nothing.
  StudyNetwork(Config config, const StudyOptions& options);

  /// Mean loss of one training pass over the random batch: the same value every time.
  Tensor loss() const;
  /// Runs one forward and backward pass under `recorder`, with names.
  void run(StepObserver& recorder) const;

  /// The configuration's, and its average of the weights.
  void add_optimizer();
  /// Updates both, at a learning rate of 0.
  void update();
  /// Bytes of a training step and its update, by MemoryPrediction::total().
  int64_t predicted_bytes() const;

  const Model& model() const { return model_; }
  /// Messages for the user about the weights of init.from.
  const std::vector<std::string>& notes() const { return notes_; }
  const ParameterArena& arena() const { return *arena_; }
  /// "keras_small, (32,64,64,3) f32 on cpu, 2 classes"; with lengths for sequences.
  std::string describe() const;

 private:
  void make_batch(const StudyOptions& options);

  Config config_;
  BuildOptions build_;
  Model model_;
  std::shared_ptr<ParameterArena> arena_;
  std::vector<std::string> notes_;
  DType dtype_;
  Tensor inputs_;   // (N,H,W,C), (T,N,F), or i64 (T,N)
  Tensor lengths_;  // i64 (N), or undefined
  Tensor labels_;   // i64 (N), of a language model (T,N); undefined for a series
  Tensor targets_;  // (N, outputs) of a series
  std::unique_ptr<Optimizer> optimizer_;  // once it is added
  std::unique_ptr<WeightAverage> average_;
};

/// Multiply-adds of one forward pass over the batch of `options`; 0 when the network does not
/// accept such examples, or an example leaves a batch norm one value per channel: of two, which
/// always become -1 and 1, a batch's gradients are hardly above rounding errors.
int64_t study_multiply_adds(const Config& config, const StudyOptions& options);

}  // namespace whisker
