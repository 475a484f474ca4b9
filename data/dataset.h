// What a training loop reads from: examples by index (Dataset) or one after another
// (IterableDataset), and the batch that a loader makes of them. An own dataset is a class with two
// functions; see tests/data/loader/dataset_example_test.cpp.
#pragma once

#include "core/tensor/tensor.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

class ImageRows;
struct ForecastBases;

/// One example: f32 values of any shape, of one shape where they are stacked (images: (H, W, C)).
struct Sample {
  Tensor input;
  int64_t label = 0;
};

/// Examples side by side. The tensors are views into memory that the source reuses once every
/// handle to it is gone; clone() what must live longer than a step or two.
struct Batch {
  /// Images f32 (N,H,W,C), sequences f32 (T,N,F) or tokens i64 (T,N), other examples along a new
  /// first axis. Undefined beside `images`.
  Tensor inputs;
  /// Classes i64 (N); the next tokens i64 (T,N) for a language model; -1 where there is no class.
  Tensor labels;
  Tensor soft_labels = {};            ///< f32 (N, classes) after mixup or cutmix, else undefined
  Tensor targets = {};                ///< f32 (N, outputs) for regression, else undefined
  Tensor lengths = {};                ///< i64 (N), valid steps of each sequence; undefined: all
  std::vector<int64_t> indices = {};  ///< where each row came from, (N)
  /// The inputs are what the network's layers from this one on take: values that the first layers
  /// have computed before.
  size_t first_layer = 0;
  /// Each row continues the same row of the batch before: recurrent states are carried.
  bool continues = false;
  /// Source of the inputs that a device makes: see LoaderOptions::images_for.
  std::shared_ptr<const ImageRows> images = {};
  /// What `targets` are relative to, by index (data/sequences/series.h); null: to nothing.
  std::shared_ptr<const ForecastBases> bases = {};
  /// Rows of all ranks' parts of the batch, of which this is one, perhaps without rows; 0: size().
  int64_t all_rows = 0;
  int64_t whole_size() const { return all_rows > 0 ? all_rows : size(); }
  int64_t size() const { return static_cast<int64_t>(indices.size()); }
};

/// An example and an epoch: the key of random augmentation.
struct SampleKey {
  int64_t index = 0;
  int64_t epoch = 0;
};

/// Examples with random access. Several threads call the functions at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  /// Example `index`, 0 <= index < size(). Throws ErrorKind::data, naming the example, when it is
  /// unreadable: the loader then replaces it.
  virtual Sample get(int64_t index) const = 0;

  /// Example `key.index` as epoch `key.epoch` sees it: get(index), unless a dataset that augments
  /// overrides it. What a loader reads.
  virtual Sample sample(SampleKey key) const;
  /// Shape of every example. Override it when reading the first one is slow or may fail.
  virtual Shape sample_shape() const;
  /// Writes the example's values to `image` (sample_shape().count() of them) and returns its label.
  /// Override it to write into the batch's memory without a copy: what sample() gives.
  virtual int64_t write(SampleKey key, std::span<float> image) const;
  /// Puts the decoded example into row `row` for a device to finish, and returns its label. Only
  /// datasets of images do; throws usage otherwise.
  virtual int64_t pack(SampleKey key, ImageRows& rows, int64_t row) const;
  /// A message for the user about events since the last call; "" for none. Called by one thread.
  virtual std::string take_note() const { return {}; }
};

/// Where to start reading a stream.
struct StreamStart {
  int64_t epoch = 0;
  int64_t skip = 0;  ///< examples to leave out, counted over all ranks
  int rank = 0;      ///< this process takes examples rank, rank + world, ... of what follows
  int world = 1;
};

/// Examples in sequence, of unknown number. Used by one thread at a time.
class IterableDataset {
 public:
  virtual ~IterableDataset() = default;
  virtual void start(StreamStart where) = 0;
  /// The next example, or nothing at the end of the epoch.
  virtual std::optional<Sample> next() = 0;
};

/// The batch being made: the key of anything random in a collate function, so that any number of
/// workers, and a resume, makes the same batch.
struct BatchKey {
  int64_t epoch = 0;
  int64_t number = 0;                     ///< of the batch in the epoch, from 0
  std::span<const int64_t> indices = {};  ///< of the samples, in their order
};

/// Makes the batch's tensors from its examples; the loader sets `indices`. Called by several
/// threads at once, each for a batch of its own.
using Collate = std::function<Batch(std::span<const Sample>, const BatchKey&)>;

/// The Collate that stacks examples of one shape; throws usage naming two shapes that differ.
Batch stack_samples(std::span<const Sample> samples, const BatchKey& key = {});

}  // namespace whisker
