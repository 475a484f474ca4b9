// Batches of an IterableDataset: one thread reads ahead, because a stream has one position.
#pragma once

#include "data/batch_source.h"
#include "data/sampler.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

namespace whisker {

struct StreamLoaderOptions {
  int64_t batch_size = 32;
  int prefetch = 2;        ///< batches ready, besides the one in use; 0: read inside next()
  bool drop_last = false;  ///< drop a last batch that is not full
  Partition part = {};
  Collate collate = stack_samples;
};

/// A stream's error ends the epoch, because nothing can replace an unreadable example.
class StreamLoader final : public BatchSource {
 public:
  StreamLoader(std::shared_ptr<IterableDataset> stream, StreamLoaderOptions options);
  ~StreamLoader() override;

  int64_t batches() const override { return -1; }
  void start_epoch(int64_t epoch, int64_t first_batch = 0) override;
  std::optional<Batch> next() override;
  LoaderStats stats() const override;

 private:
  struct Result {
    std::optional<Batch> batch;  // nothing at the end
    std::exception_ptr error;
  };
  void run(const std::stop_token& stop);
  void read_ahead(const std::stop_token& stop);
  Result read_batch();
  void stop_reading();

  std::shared_ptr<IterableDataset> stream_;
  StreamLoaderOptions options_;
  int64_t epoch_ = 0;
  int64_t position_ = 0;  // of this rank's next example, for indices; the reader's while it runs
  bool over_ = true;      // the end has been delivered

  mutable std::mutex mutex_;
  std::condition_variable_any taken_;
  std::condition_variable_any ready_;
  std::deque<Result> results_;
  std::exception_ptr failure_;  // of the memory for a result
  LoaderStats stats_;
  std::jthread thread_;
};

}  // namespace whisker
