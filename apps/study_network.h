// The network of a configuration with random pictures, for looking at its tape: no data folder and
// no weights file are needed.
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
  int64_t classes = 0;  ///< 0: the class folders in data.train, or 2
  int64_t image_size = 0;
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
  /// "keras_small, (32,64,64,3) f32 on cpu, 2 classes".
  std::string describe() const;

 private:
  Config config_;
  int64_t classes_;
  Model model_;
  std::shared_ptr<ParameterArena> arena_;
  Tensor images_;  // (N,H,W,C)
  Tensor labels_;  // i64 (N)
};

/// Multiply-adds of one forward pass over `batch` pictures of `image_size`; 0 where the network
/// does not fit such pictures.
int64_t study_multiply_adds(const Config& config, int64_t batch, int64_t image_size);

}  // namespace whisker
