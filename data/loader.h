// Batches of a dataset, prepared ahead by threads of their own that never enter OpenMP. Whatever
// the number of workers, an epoch gives the same batches in the same order: see Note [Same
// batches].
#pragma once

#include "data/augment_sampler.h"
#include "data/bad_samples.h"
#include "data/batch_memory.h"
#include "data/batch_source.h"
#include "data/device_decoding.h"
#include "data/sampler.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace whisker {

// Note [Same batches]
// Everything random is keyed by (seed, epoch, index) or (seed, epoch, batch), never drawn from a
// thread's own state. A bad example is replaced by the next index, wrapping, that can be read: a
// property of the files alone. Bad examples are counted when their batch is delivered, and batches
// are delivered in order, so even the batch at which a run stops is always the same one.

/// As many workers as the machine has cores, at most 16.
inline constexpr int auto_workers = -1;

/// Mixup and cutmix of whole batches, as `augment` says; its other keys are the dataset's.
struct MixOptions {
  AugmentConfig augment = {};
  int64_t classes = 0;  ///< columns of the soft labels
  uint64_t seed = 0;
  bool enabled() const { return augment.mixup > 0 || augment.cutmix > 0; }
};

struct LoaderOptions {
  int64_t batch_size = 32;
  int workers = auto_workers;  ///< 0: everything happens inside next()
  int prefetch = 2;            ///< batches in preparation or ready, besides the one in use
  bool drop_last = false;      ///< leave out a last batch that is not full
  OnBad on_bad = OnBad::replace;
  /// Share of the dataset that may be bad; at least one example may unless this is 0.
  double max_bad = 0.01;
  MixOptions mix = {};
  /// Set: pictures are decoded and staged for this device's PicturePipeline instead of being made
  /// rows of values here. Not with collate.
  std::optional<Device> pictures_for = {};
  /// Decodes the JPEG files of `jpeg_share` of each batch's rows on that device. Null: none of
  /// them.
  std::shared_ptr<JpegDecoder> jpeg_decoder = {};
  double jpeg_share = 0;
  /// Makes tensors of examples, told which epoch and batch they are for; empty: each is written
  /// straight into the batch's memory. Not with mix.
  Collate collate = {};
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
  /// LoaderOptions::jpeg_share of the batches that are begun from now on.
  void set_jpeg_share(double share) override { decoding_.set_share(share); }
  double jpeg_share() const override { return decoding_.share(); }
  /// How the options' decoder is used.
  DeviceDecoding& decoding() { return decoding_; }
  const std::vector<BadSample>& bad_samples() const override { return bad_.counted(); }

 private:
  // One batch in preparation. Rows are written by those who claimed them; all else is guarded by
  // mutex_ until the last row is finished, then belongs to the one who finished it.
  struct Work {
    int64_t epoch = 0;
    int64_t number = 0;
    int64_t rows = 0;
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
  Claim claim();
  std::shared_ptr<Work> begin_work();
  void process(const Claim& claim);
  std::vector<BadSample> produce_row(Work& work, int64_t row);
  std::optional<BadSample> read_row(Work& work, int64_t row, int64_t index);
  void finish_batch(Work& work);
  std::shared_ptr<Work> wait_for_front();
  void end_epoch();

  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const Sampler> sampler_;
  LoaderOptions options_;  // but the decoder
  DeviceDecoding decoding_;
  int worker_count_ = 0;
  Shape sample_shape_;
  std::unique_ptr<BatchRing> ring_;
  BadSamples bad_;  // counted by the caller's thread only

  mutable std::mutex mutex_;
  std::condition_variable_any work_there_;
  std::condition_variable_any batch_there_;
  std::vector<int64_t> order_;
  int64_t epoch_ = 0;
  int64_t next_number_ = 0;                    // of the next batch to begin
  int64_t end_number_ = 0;                     // none is begun before an epoch is
  std::deque<std::shared_ptr<Work>> queue_;    // in preparation or ready, in order
  std::map<int64_t, std::string> unreadable_;  // reasons by index, to ask each file but once
  LoaderStats stats_;
  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

}  // namespace whisker
