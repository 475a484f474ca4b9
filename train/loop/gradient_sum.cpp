#include "train/loop/gradient_sum.h"

#include "core/backend/backend.h"

#include <algorithm>
#include <utility>

namespace whisker {
namespace {

constexpr int64_t smallest_bucket = 1 << 20;  // bytes

// Milliseconds of a sum of `part`: the fastest of a few, on the slowest rank.
double time_sum(const Tensor& part, Communicator& ranks) {
  constexpr int warm_ups = 2, rounds = 5;
  const auto clock = backend_of(part.device()).make_clock();
  for (int i = 0; i < warm_ups; ++i) ranks.all_reduce(part);
  clock->mark();
  for (int i = 0; i < rounds; ++i) {
    ranks.all_reduce(part);
    clock->mark();
  }
  const std::vector<double> times = clock->read();
  double fastest = times.back();
  for (size_t i = 1; i < times.size(); ++i) fastest = std::min(fastest, times[i] - times[i - 1]);
  return std::ranges::max(ranks.group().gather(fastest));
}

Tensor part_of(const Tensor& flat, int64_t begin, int64_t count) {
  return Tensor(flat.storage(), flat.offset() + begin, Shape{count}, flat.dtype());
}

// The smallest bucket whose bytes a second are near those of the largest.
int64_t timed_bucket_bytes(const ParameterArena& arena, Communicator& ranks) {
  constexpr double enough = 0.8;
  constexpr int64_t largest = 64 << 20;
  if (arena.runs().empty()) return GradientSum::default_bucket_bytes;
  const Tensor gradients = std::ranges::max(arena.runs(), {}, [](const ParameterRun& run) {
                             return run.gradient.bytes();
                           }).gradient;
  gradients.fill_(0);
  std::vector<std::pair<int64_t, double>> speeds;
  double best = 0;
  for (int64_t bytes = smallest_bucket; bytes <= std::min(largest, gradients.bytes()); bytes *= 2) {
    const int64_t count = bytes / static_cast<int64_t>(size_of(gradients.dtype()));
    const double speed = static_cast<double>(bytes) / time_sum(part_of(gradients, 0, count), ranks);
    best = std::max(best, speed);
    speeds.emplace_back(bytes, speed);
  }
  for (const auto& [bytes, speed] : speeds) {
    if (speed >= enough * best) return bytes;
  }
  return GradientSum::default_bucket_bytes;
}

}  // namespace

GradientSum::GradientSum(const ParameterArena& arena, Communicator& ranks, int64_t bucket_bytes)
    : ranks_(ranks), bucket_bytes_(bucket_bytes) {
  if (ranks.world() == 1) return;
  for (const ParameterRun& run : arena.runs()) {
    registered_.push_back(ranks.register_memory(run.gradient));
  }
  if (bucket_bytes_ == 0) {
    bucket_bytes_ = arena.device().kind == DeviceKind::cuda ? timed_bucket_bytes(arena, ranks)
                                                            : default_bucket_bytes;
  }
  make_buckets(arena);
}

void GradientSum::make_buckets(const ParameterArena& arena) {
  for (const ParameterRun& run : arena.runs()) {
    const auto width = static_cast<int64_t>(size_of(run.gradient.dtype()));
    const char* const begin = static_cast<const char*>(run.gradient.raw());
    int64_t end = run.gradient.count();
    // What no bucket has yet is halved, so that little is left when backward is over.
    const auto enough = [&] {
      return std::min(bucket_bytes_, std::max(end * width / 2, smallest_bucket));
    };
    Bucket bucket;
    for (size_t i = arena.parameters().size(); i-- > 0;) {
      const Tensor& gradient = arena.parameters()[i]->gradient();
      if (!gradient.defined()) continue;
      const int64_t offset = static_cast<const char*>(gradient.raw()) - begin;
      if (offset < 0 || offset >= run.gradient.bytes()) continue;  // of another run
      bucket.first = i;
      ++bucket.parameters;
      bucket.full = end * width - offset >= enough();
      if (!bucket.full && offset > 0) continue;
      bucket.gradients = part_of(run.gradient, offset / width, end - offset / width);
      buckets_.push_back(std::exchange(bucket, {}));
      end = offset / width;
    }
  }
  std::ranges::sort(buckets_, [](const Bucket& a, const Bucket& b) {
    return a.full != b.full ? a.full : a.first > b.first;
  });
}

void GradientSum::begin() {
  next_ = 0;
  for (Bucket& bucket : buckets_) bucket.unfinished = bucket.parameters;
}

void GradientSum::finished(const Tensor& gradient) {
  const auto* const at = static_cast<const char*>(gradient.raw());
  const auto holds = [at](const Bucket& bucket) {
    const auto* const begin = static_cast<const char*>(bucket.gradients.raw());
    return at >= begin && at < begin + bucket.gradients.bytes();
  };
  const auto bucket = std::ranges::find_if(buckets_, holds);
  if (bucket == buckets_.end()) return;
  --bucket->unfinished;
  enqueue_full(true);
}

void GradientSum::enqueue_full(bool finished_only) {
  for (; next_ < buckets_.size() && buckets_[next_].full; ++next_) {
    if (finished_only && buckets_[next_].unfinished > 0) return;
    ranks_.begin_beside();
    ranks_.all_reduce(buckets_[next_].gradients);
    ranks_.end_beside();
  }
}

void GradientSum::enqueue(StepMemory& memory) {
  if (ranks_.world() == 1) return;
  enqueue_full(false);
  ranks_.begin_beside();
  ranks_.begin_together();
  for (; next_ < buckets_.size(); ++next_) ranks_.all_reduce(buckets_[next_].gradients);
  ranks_.all_reduce(memory.sound(), ReduceKind::min);
  ranks_.end_together();
  ranks_.end_beside();
  ranks_.join();
}

}  // namespace whisker
