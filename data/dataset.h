// What a training loop reads from: examples by index (Dataset) or one after another
// (IterableDataset), and the batch that a loader makes of them. A dataset of one's own is a class
// with two functions; see tests/data/dataset_example_test.cpp.
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace whisker {

class PictureRows;
struct ForecastBases;

/// One example: f32 values of any shape, all alike where they are stacked (pictures: (H, W, C)).
struct Sample {
  Tensor input;
  int64_t label = 0;
};

/// Examples side by side. The tensors are views into memory that the source reuses once every
/// handle on it is gone; clone() what must live longer than a step or two.
struct Batch {
  /// Pictures f32 (N,H,W,C), sequences f32 (T,N,F) or tokens i64 (T,N), other examples along a new
  /// first axis. Undefined beside `pictures`.
  Tensor inputs;
  /// Classes i64 (N); the next tokens i64 (T,N) for a language model; -1 where there is no class.
  Tensor labels;
  Tensor soft_labels = {};            ///< f32 (N, classes) after mixup or cutmix, else undefined
  Tensor targets = {};                ///< f32 (N, outputs) for regression, else undefined
  Tensor lengths = {};                ///< i64 (N), valid steps of each sequence; undefined: all
  std::vector<int64_t> indices = {};  ///< where each row came from, (N)
  /// Each row goes on where the same row of the batch before ended: recurrent states are carried.
  bool continues = false;
  /// What a device makes the inputs of: see LoaderOptions::pictures_for.
  std::shared_ptr<const PictureRows> pictures = {};
  /// What `targets` are relative to, by index (data/series.h); null: to nothing.
  std::shared_ptr<const ForecastBases> bases = {};
  int64_t size() const { return static_cast<int64_t>(indices.size()); }
};

/// Which example is wanted, and in which epoch: what random augmentation is keyed by.
struct SampleKey {
  int64_t index = 0;
  int64_t epoch = 0;
};

/// Examples that can be had in any order. The functions are called by several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  /// Example `index`, 0 <= index < size(). Throws ErrorKind::data, naming the example, when it is
  /// unreadable: the loader then takes another in its place.
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
  /// datasets of pictures do; throws usage otherwise.
  virtual int64_t stage(SampleKey key, PictureRows& rows, int64_t row) const;
};

/// Where to start reading a stream.
struct StreamStart {
  int64_t epoch = 0;
  int64_t skip = 0;  ///< examples to leave out, counted over all ranks
  int rank = 0;      ///< this process takes examples rank, rank + world, ... of what follows
  int world = 1;
};

/// Examples that come one after another, their number unknown. Used by one thread at a time.
class IterableDataset {
 public:
  virtual ~IterableDataset() = default;
  virtual void start(StreamStart where) = 0;
  /// The next example, or nothing at the end of the epoch.
  virtual std::optional<Sample> next() = 0;
};

/// Which batch is being made: what anything random in a collate function is keyed by, so that every
/// number of workers, and a resume, makes the same one.
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
