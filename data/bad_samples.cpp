#include "data/bad_samples.h"

#include "core/error.h"

#include <algorithm>
#include <string>

namespace whisker {
namespace {

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
       "data: {} of {} pictures could not be read so far, more than the {} that data.max_bad {} "
       "allows. Look with `whisker data check`, then remove or replace them, or raise "
       "data.max_bad. The first:{}",
       counted_.size(), size_, most_, max_bad_, first);
}

}  // namespace whisker
