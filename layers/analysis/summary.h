// What a model consists of and will need: per layer and in total, from shapes alone.
#pragma once

#include "layers/builder/model_builder.h"

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

struct SummaryOptions {
  int moments_per_parameter = 2;  ///< of the optimizer: 2 for Adam, 1 for momentum
  bool averaged = false;          ///< a moving average of the weights is kept
  DType compute = DType::f32;     ///< of activations, and of the copies of weights that layers read
  bool wide_gradients = false;    ///< gradients are f32 whatever `compute` is: sums over batches
  bool recompute = false;         ///< as with model.recompute: true
  Device device = cpu_device;     ///< that trains: fused operators there keep less
};

/// One operator of a forward pass.
struct LayerSummary {
  std::string name;  ///< dotted
  std::string what;  ///< "conv2d 32 3x3 relu"
  Shape output;      ///< for the whole batch
  int64_t parameters = 0;
  bool frozen = false;           ///< has parameters, none of them trained
  int64_t multiply_adds = 0;     ///< of products, per image
  int64_t activation_bytes = 0;  ///< of its output, for the whole batch; 0 for a view
};

/// Bytes. Of what kernels work in, only that is known which the network's shapes decide, and on the
/// CPU what its convolutions and recurrent layers ask for.
struct MemoryPrediction {
  int64_t values = 0;  ///< parameters, their 16-bit copies, and buffers
  int64_t gradients = 0;
  int64_t optimizer = 0;    ///< moments and the average
  int64_t activations = 0;  ///< training: kept for backward; inference: the most alive at once
  int64_t transient = 0;    ///< training: beside them when most is alive, forward or back
  int64_t scratch = 0;      ///< what kernels work in adds to the peak
  /// What MemoryStats::peak_tensors will be.
  int64_t tensors() const { return values + gradients + optimizer + activations + transient; }
  /// What MemoryStats::peak will be, as far as scratch is known.
  int64_t total() const { return tensors() + scratch; }
};

struct ModelSummary {
  Shape input;
  int64_t batch = 0;       ///< samples in it
  bool sequences = false;  ///< they are sequences, else images
  std::vector<LayerSummary> layers;
  int64_t trainable = 0;      ///< elements
  int64_t frozen = 0;         ///< elements of parameters that are not trained
  int64_t buffers = 0;        ///< elements of running statistics
  int64_t multiply_adds = 0;  ///< per image
  MemoryPrediction training, inference;
  std::vector<std::string> notes;       ///< what training fuses, and Model::notes
  std::vector<std::string> recomputed;  ///< blocks that backward runs again

  int64_t parameters() const { return trainable + frozen; }
};

/// Sums up the model for batches of model.input's extent. Frozen parameters must be so already.
ModelSummary summarize(const Model& model, const SummaryOptions& options = {});

/// A table for people, with totals and the memory of a batch; lines end in '\n' and are at most
/// `width` long where that is possible (0: no limit).
std::string to_text(const ModelSummary& summary, size_t width = 0);

}  // namespace whisker
