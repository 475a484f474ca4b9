// The pool: workers claim rows in order, the last one to finish a batch's rows completes it. What
// they do with rows is in loader_rows.cpp.
#include "data/loader.h"

#include "core/error.h"
#include "data/parallel.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace whisker {
namespace {

constexpr int max_workers = 256;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

LoaderOptions checked(LoaderOptions options) {
  const auto need = [](bool good, const char* key, const char* expected, auto got) {
    if (!good) fail(ErrorKind::usage, "{}: expected {}, got {}.", key, expected, got);
  };
  need(options.batch_size >= 1, "train.batch_size", "at least 1", options.batch_size);
  need(options.workers >= auto_workers && options.workers <= max_workers, "data.workers",
       "auto or 0 to 256", options.workers);
  need(options.prefetch >= 1, "data.prefetch", "at least 1", options.prefetch);
  need(options.max_bad >= 0 && options.max_bad <= 1, "data.max_bad", "a share from 0 to 1",
       options.max_bad);
  if (options.pictures_for && options.collate) {
    fail(ErrorKind::usage, "loader: pictures for a device need no collate function.");
  }
  if (options.mix.enabled() && options.collate) {
    fail(ErrorKind::usage,
         "loader: mixup and cutmix need stacked pictures, not a collate function.");
  }
  if (options.mix.enabled()) {
    need(options.mix.classes >= 1, "augment.mixup", "a number of classes", options.mix.classes);
  }
  need(options.jpeg_share >= 0 && options.jpeg_share <= 1, "loader: jpeg_share",
       "a share from 0 to 1", options.jpeg_share);
  return options;
}

}  // namespace

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
      fail(ErrorKind::usage, "loader: mixup and cutmix need pictures (H,W,C), got examples {}.",
           sample_shape_);
    }
    BatchRoom room{.rows = options_.batch_size,
                   .row_count = sample_shape_.count(),
                   .classes = options_.mix.enabled() ? options_.mix.classes : 0};
    if (options_.pictures_for) {
      room.row_count = 0;
      room.shelf = std::make_shared<PinnedShelf>(*options_.pictures_for);
    }
    ring_ = std::make_unique<BatchRing>(std::move(room));
  }
  for (int i = 0; i < worker_count_; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { run_worker(stop); });
  }
}

Loader::~Loader() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

int64_t Loader::batches() const {
  const int64_t full = sampler_->size() / options_.batch_size;
  const bool rest = sampler_->size() % options_.batch_size != 0;
  return full + (rest && !options_.drop_last ? 1 : 0);
}

void Loader::start_epoch(int64_t epoch, int64_t first_batch) {
  if (epoch < 0 || first_batch < 0 || first_batch > batches()) {
    fail(ErrorKind::usage,
         "loader: expected epoch >= 0 and a first batch from 0 to {}, got {}, {}.", batches(),
         epoch, first_batch);
  }
  std::vector<int64_t> order = sampler_->order(epoch);
  {
    const std::lock_guard lock(mutex_);
    queue_.clear();  // rows being worked on are finished and forgotten
    order_ = std::move(order);
    epoch_ = epoch;
    next_number_ = first_batch;
    end_number_ = batches();
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
      end_epoch();
      throw;
    }
    if (work->batch.size() == 0) continue;  // every row was left out
    const std::lock_guard lock(mutex_);
    stats_.wait_seconds += seconds_since(begin);
    stats_.samples += work->batch.size();
    stats_.batches += 1;
    return std::move(work->batch);
  }
  return std::nullopt;
}

LoaderStats Loader::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

// Takes the next batch off the queue once it is ready; nothing at the epoch's end.
std::shared_ptr<Loader::Work> Loader::wait_for_front() {
  std::unique_lock lock(mutex_);
  const auto front_ready = [&] { return !queue_.empty() && queue_.front()->ready; };
  while (worker_count_ == 0 && !front_ready() && claimable()) {
    const Claim mine = claim();
    lock.unlock();
    process(mine);
    lock.lock();
  }
  if (queue_.empty() && !claimable()) return nullptr;
  batch_there_.wait(lock, front_ready);
  std::shared_ptr<Work> work = std::move(queue_.front());
  queue_.pop_front();
  return work;
}

void Loader::end_epoch() {
  const std::lock_guard lock(mutex_);
  queue_.clear();
  next_number_ = end_number_;
}

void Loader::run_worker(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (work_there_.wait(lock, stop, [&] { return claimable(); }) && !stop.stop_requested()) {
    const Claim mine = claim();
    lock.unlock();
    process(mine);
    lock.lock();
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
  work->rows = end - begin;
  work->indices.assign(order_.begin() + begin, order_.begin() + end);
  if (options_.collate) {
    work->samples.resize(work->indices.size());
  } else {
    work->buffer = ring_->take();
    if (PictureRows* const pictures = work->buffer->pictures()) decoding_.begin(*pictures);
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

}  // namespace whisker
