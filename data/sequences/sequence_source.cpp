// Each index of the sampler's order is added to the bucket of its length. A full bucket is a batch;
// what is left in a bucket at the end moves up to the next, so that only the very last batch is not
// full.
#include "data/sequences/sequence_source.h"

#include "core/error.h"
#include "core/tensor/philox.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

namespace whisker {

std::vector<int64_t> bucket_lengths(std::span<const int64_t> lengths, int64_t count) {
  std::vector<int64_t> sorted(lengths.begin(), lengths.end());
  std::ranges::sort(sorted);
  std::vector<int64_t> buckets;
  for (int64_t i = 1; i <= count && !sorted.empty(); ++i) {
    const auto last = std::max<int64_t>(1, std::ssize(sorted) * i / count) - 1;
    const int64_t length = sorted[static_cast<size_t>(last)];
    if (buckets.empty() || length > buckets.back()) buckets.push_back(length);
  }
  return buckets;
}

SequenceSource::SequenceSource(std::shared_ptr<const SequenceSet> set,
                               std::shared_ptr<const Sampler> sampler,
                               SequenceSourceOptions options)
    : set_(std::move(set)), sampler_(std::move(sampler)), options_(std::move(options)) {
  if (options_.batch_size < 1) {
    fail(ErrorKind::usage, "train.batch_size: expected at least 1, got {}", options_.batch_size);
  }
  const int64_t longest = set_->longest();
  if (options_.buckets.empty() || options_.buckets.back() < longest) {
    options_.buckets.push_back(longest);
  }
}

int64_t SequenceSource::batches() const {
  return count_batches(sampler_->size(), options_.batch_size, options_.drop_last);
}

std::vector<SequenceSource::Group> SequenceSource::groups(int64_t epoch) const {
  const std::vector<int64_t>& steps = options_.buckets;
  const auto size = static_cast<size_t>(options_.batch_size);
  std::vector<std::vector<int64_t>> waiting(steps.size());
  std::vector<Group> all;
  const auto emit = [&](size_t bucket, size_t count) {
    std::vector<int64_t>& from = waiting[bucket];
    const auto end = from.begin() + static_cast<std::ptrdiff_t>(count);
    all.push_back({.indices = {from.begin(), end}, .steps = steps[bucket]});
    from.erase(from.begin(), end);
  };
  for (const int64_t index : sampler_->order(epoch)) {
    const int64_t length = set_->lengths[static_cast<size_t>(index)];
    const auto bucket =
        static_cast<size_t>(std::ranges::lower_bound(steps, length) - steps.begin());
    waiting[bucket].push_back(index);
    if (waiting[bucket].size() == size) emit(bucket, size);
  }
  for (size_t bucket = 0; bucket < steps.size(); ++bucket) {
    if (waiting[bucket].size() >= size) emit(bucket, size);
    if (bucket + 1 == steps.size()) break;
    std::vector<int64_t>& above = waiting[bucket + 1];
    above.insert(above.begin(), waiting[bucket].begin(), waiting[bucket].end());
  }
  if (!waiting.back().empty() && !options_.drop_last) {
    emit(steps.size() - 1, waiting.back().size());
  }
  if (!options_.shuffle) return all;
  std::vector<int64_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, options_.seed, stream_of("buckets"), static_cast<uint64_t>(epoch));
  std::vector<Group> shuffled;
  for (const int64_t i : order) shuffled.push_back(std::move(all[static_cast<size_t>(i)]));
  return shuffled;
}

void SequenceSource::start_epoch(int64_t epoch, int64_t first_batch) {
  check_start("sequences", epoch, first_batch, batches());
  groups_ = groups(epoch);
  next_ = static_cast<size_t>(first_batch);
}

std::optional<Batch> SequenceSource::next() {
  if (next_ >= groups_.size()) return std::nullopt;
  const auto begin = std::chrono::steady_clock::now();
  const Group& group = groups_[next_++];
  const Partition part = options_.part;
  std::vector<int64_t> own;
  for (int64_t i = part.rank; i < std::ssize(group.indices); i += part.world) {
    own.push_back(group.indices[static_cast<size_t>(i)]);
  }
  Batch batch = own.empty() ? Batch() : make_batch(*set_, own, group.steps);
  batch.all_rows = std::ssize(group.indices);
  const double seconds = seconds_since(begin);
  stats_.wait_seconds += seconds;
  stats_.work_seconds += seconds;
  stats_.samples += batch.size();
  ++stats_.batches;
  return batch;
}

}  // namespace whisker
