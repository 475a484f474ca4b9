// Epochs of a folder's files joined to one that is long enough for a measurement.
#pragma once

#include "data/sampler.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace whisker::bench {

/// `size` files in all. As in all epochs of a run but the first, most of them have been seen
/// before.
class JoinedEpochs final : public Sampler {
 public:
  JoinedEpochs(int64_t files, int64_t size)
      : one_(shuffle_sampler(files, {.seed = 1})), size_(size) {}
  int64_t size() const override { return size_; }
  std::vector<int64_t> order(int64_t) const override {
    std::vector<int64_t> order;
    for (int64_t epoch = 0; std::ssize(order) < size_; ++epoch) {
      const std::vector<int64_t> next = one_->order(epoch);
      order.insert(order.end(), next.begin(), next.end());
    }
    order.resize(static_cast<size_t>(size_));
    return order;
  }

 private:
  std::unique_ptr<Sampler> one_;
  int64_t size_;
};

}  // namespace whisker::bench
