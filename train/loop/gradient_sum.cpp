#include "train/loop/gradient_sum.h"

#include <algorithm>
#include <ranges>

namespace whisker {
namespace {

constexpr int64_t bucket_bytes = 16 << 20;

}  // namespace

GradientSum::GradientSum(const ParameterArena& arena, Communicator& ranks) : ranks_(ranks) {
  for (const ParameterRun& run : arena.runs() | std::views::reverse) {
    const Tensor& all = run.gradient;
    const int64_t most = bucket_bytes / static_cast<int64_t>(size_of(all.dtype()));
    for (int64_t end = all.count(); end > 0; end -= std::min(end, most)) {
      const int64_t begin = std::max<int64_t>(0, end - most);
      buckets_.emplace_back(all.storage(), all.offset() + begin, Shape{end - begin}, all.dtype());
    }
  }
}

void GradientSum::enqueue(StepMemory& memory) {
  if (ranks_.world() == 1) return;
  ranks_.begin_together();
  for (const Tensor& bucket : buckets_) ranks_.all_reduce(bucket);
  ranks_.all_reduce(memory.sound(), ReduceKind::min);
  ranks_.end_together();
}

}  // namespace whisker
