// The network of a configuration with a random batch (pictures, tokens, sequences of numbers), for
// looking at its tape: no data and no weights file are needed.
#pragma once

#include "core/parameters.h"
#include "core/tape_listing.h"
#include "layers/model_builder.h"
#include "train/config.h"

#include <memory>
#include <string>

namespace whisker {

/// What to build differently from what the configuration says; 0 keeps its choice.
struct StudyOptions {
  int64_t batch = 0;
  int64_t classes = 0;  ///< 0: those of the data in data.train, or 2
  int64_t image_size = 0;
  int64_t steps = 0;          ///< of sequences
  bool cells = false;         ///< recurrent layers step by step, in plain operators
  TensorOptions tensor = {};  ///< where and in what to compute
};

class StudyNetwork {
 public:
  /// Throws what build_model throws, and usage for patterns in `freeze` that match nothing.
  StudyNetwork(Config config, const StudyOptions& options);

  /// Mean loss of one training pass over the random batch: the same value every time.
  Tensor loss() const;
  /// One forward and backward pass seen by `listing`, with everything named.
  void run(TapeListing& listing) const;

  const Model& model() const { return model_; }
  const ParameterArena& arena() const { return *arena_; }
  /// "keras_small, (32,64,64,3) f32 on cpu, 2 classes"; sequences also tell their lengths.
  std::string describe() const;

 private:
  void make_batch(const StudyOptions& options);

  Config config_;
  BuildOptions build_;
  Model model_;
  std::shared_ptr<ParameterArena> arena_;
  DType dtype_;
  Tensor inputs_;   // (N,H,W,C), (T,N,F), or i64 (T,N)
  Tensor lengths_;  // i64 (N), or undefined
  Tensor labels_;   // i64 (N), of a language model (T,N); undefined for a series
  Tensor targets_;  // (N, outputs) of a series
};

/// Multiply-adds of one forward pass over the batch that `options` ask for; 0 where the network
/// does not fit such examples.
int64_t study_multiply_adds(const Config& config, const StudyOptions& options);

}  // namespace whisker
