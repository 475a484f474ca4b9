// Which examples of a dataset could not be read, and how many of them a run forgives.
#pragma once

#include "data/batch_source.h"

#include <cstdint>
#include <map>
#include <unordered_set>
#include <vector>

namespace whisker {

enum class OnBad {
  replace,  ///< training: batches keep their size
  skip,     ///< evaluation: the row is left out, the batch is smaller
};

class BadSamples {
 public:
  /// Of a dataset of `size` examples, the share `max_bad` may be bad; at least one may unless that
  /// is 0.
  BadSamples(double max_bad, int64_t size, OnBad on_bad);

  /// How many may be bad.
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

}  // namespace whisker
