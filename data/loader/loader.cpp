// The pool: workers claim rows in order, read examples into them, replace or leave out bad ones;
// the last one to finish a batch's rows completes it.
#include "data/loader/loader.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/work_progress.h"
#include "data/parallel.h"
#include "data/transforms/mix.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace whisker {
namespace {

constexpr int max_workers = 256;

using Clock = std::chrono::steady_clock;

LoaderOptions checked(LoaderOptions options) {
  const auto need = [](bool good, const char* key, const char* expected, auto got) {
    if (!good) fail(ErrorKind::usage, "{}: expected {}, got {}.", key, expected, got);
  };
  need(options.batch_size >= options.part.world, "train.batch_size", "at least 1 for each rank",
       options.batch_size);
  need(options.workers >= auto_workers && options.workers <= max_workers, "data.workers",
       "auto or 0 to 256", options.workers);
  need(options.prefetch >= 1, "data.prefetch", "at least 1", options.prefetch);
  need(options.max_bad >= 0 && options.max_bad <= 1, "data.max_bad", "a fraction from 0 to 1",
       options.max_bad);
  if (options.images_for && options.collate) {
    fail(ErrorKind::usage, "loader: images for a device need no collate function.");
  }
  if (options.mix.enabled() && options.collate) {
    fail(ErrorKind::usage, "loader: mixup and cutmix need stacked images, not a collate function.");
  }
  if (options.mix.enabled()) {
    need(options.mix.classes >= 1, "augment.mixup", "a number of classes", options.mix.classes);
  }
  need(options.jpeg_share >= 0 && options.jpeg_share <= 1, "loader: jpeg_share",
       "a fraction from 0 to 1", options.jpeg_share);
  return options;
}

int64_t most_of(double max_bad, int64_t size, OnBad on_bad) {
  if (max_bad <= 0) return 0;
  // The small term keeps 0.29 * 100 from being 28.
  const auto share = static_cast<int64_t>(max_bad * static_cast<double>(size) + 1e-9);
  return std::min(std::max<int64_t>(share, 1), on_bad == OnBad::replace ? size - 1 : size);
}

}  // namespace

BadSamples::BadSamples(double max_bad, int64_t size, OnBad on_bad)
    : max_bad_(max_bad), size_(size), most_(most_of(max_bad, size, on_bad)) {}

void BadSamples::count(const std::map<int64_t, std::vector<BadSample>>& by_row) {
  for (const auto& [row, bad] : by_row) {
    for (const BadSample& one : bad) {
      if (indices_.insert(one.index).second) counted_.push_back(one);
    }
  }
  if (std::ssize(counted_) <= most_) return;
  std::string first;
  for (size_t i = 0; i < std::min<size_t>(counted_.size(), 3); ++i) {
    first += "\n  " + counted_[i].reason;
  }
  fail(ErrorKind::data,
       "data: {} of {} could not be read so far, more than the {} that data.max_bad {} "
       "allows. Find them with `whisker data check`, then remove or replace them, or raise "
       "data.max_bad. The first:{}",
       counted_.size(), whisker::counted(size_, "image"), most_, max_bad_, MessageLines{first});
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Sampler> sampler,
               LoaderOptions options)
    : dataset_(std::move(dataset)),
      sampler_(std::move(sampler)),
      options_(checked(std::move(options))),
      decoding_(std::move(options_.jpeg_decoder), options_.jpeg_share),
      bad_(options_.max_bad, dataset_->size(), options_.on_bad) {
  worker_count_ = resolve_workers(options_.workers);
  if (!options_.collate) {
    sample_shape_ = dataset_->sample_shape();
    if (options_.mix.enabled() && sample_shape_.rank() != 3) {
      fail(ErrorKind::usage, "loader: mixup and cutmix need images (H,W,C), got examples {}.",
           sample_shape_);
    }
    BatchLayout layout{.rows = options_.part.of(options_.batch_size),
                       .row_count = sample_shape_.count(),
                       .classes = options_.mix.enabled() ? options_.mix.classes : 0};
    if (options_.images_for) {
      layout.row_count = 0;
      layout.pool = std::make_shared<PinnedPool>(*options_.images_for);
    }
    pool_ = std::make_unique<BatchPool>(std::move(layout));
  }
  for (int i = 0; i < worker_count_; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { run_worker(stop); });
  }
}

Loader::~Loader() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

int64_t Loader::batches() const {
  return count_batches(sampler_->size(), options_.batch_size, options_.drop_last);
}

void Loader::start_epoch(int64_t epoch, int64_t first_batch) {
  check_start("loader", epoch, first_batch, batches());
  std::vector<int64_t> order = sampler_->order(epoch);
  {
    const std::lock_guard lock(mutex_);
    queue_.clear();  // rows being worked on are finished and forgotten
    failure_ = nullptr;
    order_ = std::move(order);
    epoch_ = epoch;
    next_number_ = first_batch;
    end_number_ = batches();
    const int64_t last_rows = std::ssize(order_) - (end_number_ - 1) * options_.batch_size;
    empty_batch_left_ = end_number_ > first_batch && last_rows <= options_.part.rank;
    if (empty_batch_left_) --end_number_;
  }
  work_there_.notify_all();
}

std::optional<Batch> Loader::next() {
  const Clock::time_point begin = Clock::now();
  while (const std::shared_ptr<Work> work = wait_for_front()) {
    work_there_.notify_all();
    try {
      bad_.count(work->bad);
      if (!work->errors.empty()) std::rethrow_exception(work->errors.begin()->second);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      forget_epoch();
      throw;
    }
    if (work->batch.size() == 0) continue;  // every row was left out
    const std::lock_guard lock(mutex_);
    stats_.wait_seconds += seconds_since(begin);
    stats_.samples += work->batch.size();
    stats_.batches += 1;
    work->batch.all_rows = work->all_rows;
    return std::move(work->batch);
  }
  const std::lock_guard lock(mutex_);
  if (!std::exchange(empty_batch_left_, false)) return std::nullopt;
  Batch none;
  none.all_rows = std::ssize(order_) - end_number_ * options_.batch_size;
  return none;
}

LoaderStats Loader::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

// Takes the next batch off the queue once it is ready; nothing at the epoch's end.
std::shared_ptr<Loader::Work> Loader::wait_for_front() {
  std::unique_lock lock(mutex_);
  const auto front_ready = [&] { return failure_ || (!queue_.empty() && queue_.front()->ready); };
  while (worker_count_ == 0 && !front_ready() && claimable()) work_on_row(lock);
  if (queue_.empty() && !claimable() && !failure_) return nullptr;
  batch_there_.wait(lock, front_ready);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  std::shared_ptr<Work> work = std::move(queue_.front());
  queue_.pop_front();
  return work;
}

// With mutex_ held. Rows being worked on are finished and forgotten.
void Loader::forget_epoch() {
  queue_.clear();
  next_number_ = end_number_;
  empty_batch_left_ = false;
}

void Loader::run_worker(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (work_there_.wait(lock, stop, [&] { return claimable(); }) && !stop.stop_requested()) {
    work_on_row(lock);
  }
}

// With mutex_ held by `lock`, but while the row is worked on. A row's own errors wait for its
// batch; this is where the rest ends, above all memory that cannot be had.
void Loader::work_on_row(std::unique_lock<std::mutex>& lock) {
  try {
    const Claim mine = claim();
    lock.unlock();
    process(mine);
    lock.lock();
  } catch (...) {
    if (!lock) lock.lock();
    failure_ = std::current_exception();
    forget_epoch();
    batch_there_.notify_all();
  }
}

bool Loader::claimable() const {
  if (!queue_.empty() && queue_.back()->claimed < queue_.back()->rows) return true;
  return std::ssize(queue_) < options_.prefetch && next_number_ < end_number_;
}

// Rows are given out in order: a batch is begun when every row of those before it is claimed.
Loader::Claim Loader::claim() {
  if (queue_.empty() || queue_.back()->claimed == queue_.back()->rows) {
    queue_.push_back(begin_work());
  }
  return {.work = queue_.back(), .row = queue_.back()->claimed++};
}

std::shared_ptr<Loader::Work> Loader::begin_work() {
  auto work = std::make_shared<Work>();
  work->epoch = epoch_;
  work->number = next_number_++;
  const int64_t begin = work->number * options_.batch_size;
  const int64_t end = std::min(begin + options_.batch_size, std::ssize(order_));
  for (int64_t i = begin + options_.part.rank; i < end; i += options_.part.world) {
    work->indices.push_back(order_[static_cast<size_t>(i)]);
  }
  work->rows = std::ssize(work->indices);
  work->all_rows = end - begin;
  if (options_.collate) {
    work->samples.resize(work->indices.size());
  } else {
    work->buffer = pool_->take();
    if (ImageRows* const images = work->buffer->images()) decoding_.begin(*images);
  }
  return work;
}

void Loader::process(const Claim& claim) {
  Work& work = *claim.work;
  const Clock::time_point begin = Clock::now();
  std::vector<BadSample> bad;
  std::exception_ptr error;
  try {
    bad = produce_row(work, claim.row);
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    stats_.work_seconds += seconds_since(begin);
    for (const BadSample& one : bad) unreadable_.emplace(one.index, one.reason);
    if (!bad.empty()) work.bad.emplace(claim.row, std::move(bad));
    if (error) work.errors.emplace(claim.row, error);
    if (++work.finished < work.rows) return;
  }
  try {
    if (work.errors.empty()) finish_batch(work);
  } catch (...) {
    work.errors.emplace(0, std::current_exception());
  }
  {
    const std::lock_guard lock(mutex_);
    work.ready = true;
  }
  batch_there_.notify_all();
}

// Fills a row, with the next readable example where the wanted one is bad. Returns the bad ones.
std::vector<BadSample> Loader::produce_row(Work& work, int64_t row) {
  std::vector<BadSample> bad;
  int64_t& index = work.indices[static_cast<size_t>(row)];
  while (std::optional<BadSample> failure = read_row(work, row, index)) {
    bad.push_back(std::move(*failure));
    // Beyond the limit the run stops when this batch is due, so there is no need to search on.
    if (options_.on_bad == OnBad::skip || std::ssize(bad) > bad_.most()) {
      index = -1;
      break;
    }
    index = (index + 1) % dataset_->size();
  }
  for (BadSample& one : bad) one.replacement = index;
  return bad;
}

std::optional<BadSample> Loader::read_row(Work& work, int64_t row, int64_t index) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = unreadable_.find(index);
    if (known != unreadable_.end()) return BadSample{.index = index, .reason = known->second};
  }
  count_progress();
  try {
    if (options_.collate) {
      work.samples[static_cast<size_t>(row)] =
          dataset_->sample({.index = index, .epoch = work.epoch});
    } else {
      const SampleKey key{.index = index, .epoch = work.epoch};
      ImageRows* const images = work.buffer->images();
      work.buffer->labels()[static_cast<size_t>(row)] =
          images ? dataset_->pack(key, *images, row) : dataset_->write(key, work.buffer->row(row));
    }
    return std::nullopt;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    return BadSample{.index = index, .reason = error.what()};
  }
}

// Closes the gaps that left-out rows made, decodes what a device is to decode, mixes, and makes the
// tensors.
void Loader::finish_batch(Work& work) {
  std::vector<int64_t>& indices = work.indices;
  size_t rows = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0) continue;
    if (rows != i && options_.collate) work.samples[rows] = std::move(work.samples[i]);
    if (rows != i && !options_.collate) {
      work.buffer->move_row(static_cast<int64_t>(i), static_cast<int64_t>(rows));
    }
    indices[rows++] = indices[i];
  }
  indices.resize(rows);
  if (rows == 0) return;
  if (options_.collate) {
    work.samples.resize(rows);
    work.batch = options_.collate(work.samples,
                                  {.epoch = work.epoch, .number = work.number, .indices = indices});
    work.batch.indices = std::move(indices);
    work.samples.clear();
    return;
  }
  if (ImageRows* const images = work.buffer->images()) {
    decoding_.finish(*images, static_cast<int64_t>(rows));
  }
  if (options_.mix.enabled()) {
    const ImageSize size{static_cast<int>(sample_shape_[0]), static_cast<int>(sample_shape_[1])};
    const DrawKey key{.seed = options_.mix.seed,
                      .epoch = static_cast<uint64_t>(work.epoch),
                      .index = static_cast<uint64_t>(work.number)};
    const auto classes = static_cast<size_t>(options_.mix.classes);
    const BatchMix mix = sample_mix(options_.mix.augment, key, size);
    mix_labels(mix, work.buffer->labels().first(rows),
               work.buffer->soft_labels().first(rows * classes));
    if (ImageRows* const images = work.buffer->images()) {
      images->mix = mix;
    } else {
      mix_images(mix, {.images = {work.buffer->row(0).data(), rows * work.buffer->row(0).size()},
                       .rows = static_cast<int64_t>(rows),
                       .height = size.height,
                       .width = size.width});
    }
  }
  work.batch = view_batch(std::move(work.buffer), sample_shape_, std::move(indices));
}

}  // namespace whisker
