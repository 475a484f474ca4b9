// Batches of a dataset, prepared ahead by worker threads that never enter OpenMP. An epoch has the
// same batches in the same order for any number of workers: see Note [Same batches].
#pragma once

#include "data/batch_source.h"
#include "data/loader/batch_memory.h"
#include "data/loader/device_decoding.h"
#include "data/sampler.h"
#include "data/transforms/augment_sampler.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

namespace whisker {

// Note [Same batches] Everything random is keyed by (seed, epoch, index) or (seed, epoch, batch),
// never drawn from a thread's own state. A bad example is replaced by the next readable index (with
// wrap-around), which depends on the files alone. Bad examples are counted when their batch is
// delivered, and batches are delivered in order, so even the batch at which a run stops is always
// the same one.

/// See resolve_workers().
inline constexpr int auto_workers = -1;

/// Mixup and cutmix of whole batches, from `augment`; the dataset uses its other keys.
struct MixOptions {
  AugmentConfig augment = {};
  int64_t classes = 0;  ///< columns of the soft labels
  uint64_t seed = 0;
  bool enabled() const { return augment.mixup > 0 || augment.cutmix > 0; }
};

enum class OnBad {
  replace,  ///< training: batches keep their size
  skip,     ///< evaluation: the row is left out, the batch is smaller
};

struct LoaderOptions {
  int64_t batch_size = 32;     ///< over all ranks
  int workers = auto_workers;  ///< 0: everything happens inside next()
  int prefetch = 2;            ///< batches in preparation or ready, besides the one in use
  bool drop_last = false;      ///< drop a last batch that is not full
  OnBad on_bad = OnBad::replace;
  Partition part = {};  ///< of each batch
  /// Largest fraction of bad examples; at least one may be bad unless this is 0.
  double max_bad = 0.01;
  MixOptions mix = {};
  /// Set: images are decoded and packed for this device's ImagePipeline instead of being made
  /// rows of values here. Not with collate.
  std::optional<Device> images_for = {};
  /// Decodes the JPEG files of `jpeg_share` of each batch's rows on that device. Null: none of
  /// them.
  std::shared_ptr<JpegDecoder> jpeg_decoder = {};
  double jpeg_share = 0;
  /// Makes a batch's tensors from its examples. Empty: each example is written directly into the
  /// batch's memory. Not with mix.
  Collate collate = {};
};

/// Examples that could not be read, and the limit on their number.
class BadSamples {
 public:
  /// At most the fraction `max_bad` of `size` examples may be bad; at least one unless it is 0.
  BadSamples(double max_bad, int64_t size, OnBad on_bad);

  /// Limit on bad examples.
  int64_t most() const { return most_; }
  /// Counts those of a batch, by row, each index once. Throws data when they are too many.
  void count(const std::map<int64_t, std::vector<BadSample>>& by_row);
  /// In the order in which they were counted.
  const std::vector<BadSample>& counted() const { return counted_; }

 private:
  double max_bad_;
  int64_t size_;
  int64_t most_;
  std::vector<BadSample> counted_;
  std::unordered_set<int64_t> indices_;  // of counted_
};

class Loader final : public BatchSource {
 public:
  /// Throws usage for options out of range. No epoch is begun.
  Loader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Sampler> sampler,
         LoaderOptions options);
  ~Loader() override;

  int64_t batches() const override;
  int workers() const { return worker_count_; }

  void start_epoch(int64_t epoch, int64_t first_batch = 0) override;
  std::optional<Batch> next() override;
  LoaderStats stats() const override;
  std::string take_note() override { return dataset_->take_note(); }
  /// Sets LoaderOptions::jpeg_share for batches that begin from now on.
  void set_jpeg_share(double share) override { decoding_.set_share(share); }
  double jpeg_share() const override { return decoding_.share(); }
  /// How the options' decoder is used.
  DeviceDecoding& decoding() { return decoding_; }
  const std::vector<BadSample>& bad_samples() const override { return bad_.counted(); }

 private:
  // One batch in preparation. The thread that claimed a row writes it; mutex_ guards the rest until
  // the last row is finished, then it belongs to the thread that finished it.
  struct Work {
    int64_t epoch = 0;
    int64_t number = 0;
    int64_t rows = 0;
    int64_t all_rows = 0;          // over all ranks
    std::vector<int64_t> indices;  // wanted, then what each row holds; -1: left out
    std::shared_ptr<BatchBuffer> buffer;
    std::vector<Sample> samples;  // with a collate function
    int64_t claimed = 0;
    int64_t finished = 0;
    std::map<int64_t, std::vector<BadSample>> bad;  // by row
    std::map<int64_t, std::exception_ptr> errors;   // by row
    Batch batch;
    bool ready = false;
  };
  struct Claim {
    std::shared_ptr<Work> work;
    int64_t row = 0;
  };

  void run_worker(const std::stop_token& stop);
  bool claimable() const;
  void work_on_row(std::unique_lock<std::mutex>& lock);
  Claim claim();
  std::shared_ptr<Work> begin_work();
  void process(const Claim& claim);
  std::vector<BadSample> produce_row(Work& work, int64_t row);
  std::optional<BadSample> read_row(Work& work, int64_t row, int64_t index);
  void finish_batch(Work& work);
  std::shared_ptr<Work> wait_for_front();
  void forget_epoch();

  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const Sampler> sampler_;
  LoaderOptions options_;  // but the decoder
  DeviceDecoding decoding_;
  int worker_count_ = 0;
  Shape sample_shape_;
  std::unique_ptr<BatchPool> pool_;
  BadSamples bad_;  // counted by the caller's thread only

  mutable std::mutex mutex_;
  std::condition_variable_any work_there_;
  std::condition_variable_any batch_there_;
  std::vector<int64_t> order_;
  int64_t epoch_ = 0;
  int64_t next_number_ = 0;                    // of the next batch to begin
  int64_t end_number_ = 0;                     // none is begun before an epoch is
  bool empty_batch_left_ = false;              // the epoch's last, with rows for other ranks only
  std::deque<std::shared_ptr<Work>> queue_;    // in preparation or ready, in order
  std::exception_ptr failure_;                 // of no row's, but of the memory for one
  std::map<int64_t, std::string> unreadable_;  // reasons by index, so that each file is read once
  LoaderStats stats_;
  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

}  // namespace whisker
