// One reader thread per epoch; it ends after the last batch or an error.
#include "data/loader/stream_loader.h"

#include "core/error.h"

#include <chrono>
#include <utility>

namespace whisker {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

StreamLoader::StreamLoader(std::shared_ptr<IterableDataset> stream, StreamLoaderOptions options)
    : stream_(std::move(stream)), options_(std::move(options)) {
  if (options_.batch_size < 1 || options_.prefetch < 0) {
    fail(ErrorKind::usage, "data: expected batch_size >= 1 and prefetch >= 0, got {} and {}.",
         options_.batch_size, options_.prefetch);
  }
}

StreamLoader::~StreamLoader() {
  stop_reading();
}

void StreamLoader::stop_reading() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void StreamLoader::start_epoch(int64_t epoch, int64_t first_batch) {
  if (epoch < 0 || first_batch < 0) {
    fail(ErrorKind::usage, "data: expected epoch and first batch of at least 0, got {} and {}.",
         epoch, first_batch);
  }
  stop_reading();
  results_.clear();
  failure_ = nullptr;
  over_ = false;
  epoch_ = epoch;
  position_ = first_batch * options_.batch_size;
  stream_->start({.epoch = epoch,
                  .skip = position_ * options_.part.world,
                  .rank = options_.part.rank,
                  .world = options_.part.world});
  if (options_.prefetch > 0) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
}

std::optional<Batch> StreamLoader::next() {
  if (over_) return std::nullopt;
  const Clock::time_point begin = Clock::now();
  Result result;
  if (options_.prefetch == 0) {
    result = read_batch();
  } else {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return failure_ || !results_.empty(); });
    if (results_.empty()) {
      over_ = true;
      std::rethrow_exception(failure_);
    }
    result = std::move(results_.front());
    results_.pop_front();
  }
  taken_.notify_one();
  over_ = !result.batch;
  const std::lock_guard lock(mutex_);
  stats_.wait_seconds += seconds_since(begin);
  if (result.error) std::rethrow_exception(result.error);
  if (result.batch) {
    stats_.samples += result.batch->size();
    stats_.batches += 1;
  }
  return std::move(result.batch);
}

LoaderStats StreamLoader::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void StreamLoader::run(const std::stop_token& stop) {
  try {
    read_ahead(stop);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    ready_.notify_one();
  }
}

void StreamLoader::read_ahead(const std::stop_token& stop) {
  for (bool more = true; more;) {
    {
      std::unique_lock lock(mutex_);
      taken_.wait(lock, stop, [&] { return std::ssize(results_) < options_.prefetch; });
      if (stop.stop_requested()) return;
    }
    Result result = read_batch();
    more = result.batch.has_value();
    {
      const std::lock_guard lock(mutex_);
      results_.push_back(std::move(result));
    }
    ready_.notify_one();
  }
}

StreamLoader::Result StreamLoader::read_batch() {
  const Clock::time_point begin = Clock::now();
  Result result;
  try {
    std::vector<Sample> samples;
    std::vector<int64_t> indices;
    while (std::ssize(samples) < options_.batch_size) {
      std::optional<Sample> sample = stream_->next();
      if (!sample) break;
      samples.push_back(std::move(*sample));
      indices.push_back(position_++ * options_.part.world + options_.part.rank);
    }
    const bool full = std::ssize(samples) == options_.batch_size;
    if (full || (!samples.empty() && !options_.drop_last)) {
      // All of a stream's batches but the last are full, so the position determines the number.
      const int64_t number = (position_ - 1) / options_.batch_size;
      result.batch =
          options_.collate(samples, {.epoch = epoch_, .number = number, .indices = indices});
      result.batch->indices = std::move(indices);
    }
  } catch (...) {
    result.batch.reset();
    result.error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  stats_.work_seconds += seconds_since(begin);
  return result;
}

}  // namespace whisker
