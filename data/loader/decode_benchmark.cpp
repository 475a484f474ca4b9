#include "data/loader/decode_benchmark.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace whisker {

DecodeBenchmark::DecodeBenchmark(DecodeBenchmarkOptions options)
    : options_(std::move(options)), share_(options_.shares.front()), to_settle_(options_.warm_up) {}

bool DecodeBenchmark::delivered(const Delivery& delivery) {
  if (finished_) return false;
  if (to_settle_ > 0) {
    --to_settle_;
    return false;
  }
  if (delivery.first_of_epoch) return false;
  images_ += static_cast<double>(delivery.images);
  seconds_ += delivery.seconds;
  waited_ += delivery.waited;
  if (++counted_ < options_.measured) return false;
  const double before = share_;
  next_share();
  return share_ != before;
}

void DecodeBenchmark::next_share() {
  rates_.push_back(images_ / std::max(seconds_, 1e-9));
  if (rates_.size() == 1) first_wait_ = waited_ / std::max(seconds_, 1e-9);
  images_ = seconds_ = waited_ = 0;
  counted_ = 0;
  to_settle_ = options_.settle;
  // Where a candidate is slower than the baseline the device is the bottleneck: larger ones lose
  // too.
  const bool slower = rates_.back() < rates_.front();
  const bool last = ++number_ == options_.shares.size();
  if (first_wait_ < options_.least_wait || slower || last) return choose();
  share_ = options_.shares[number_];
}

void DecodeBenchmark::choose() {
  finished_ = true;
  const auto best = std::ranges::max_element(rates_);
  const bool better = *best > rates_.front() * (1 + options_.least_gain);
  share_ = better ? options_.shares[static_cast<size_t>(best - rates_.begin())]
                  : options_.shares.front();
}

std::string DecodeBenchmark::verdict() const {
  if (rates_.size() == 1) {
    return fmt::format(
        "data.gpu_decode: the CPU decodes all JPEG files and keeps up: {:.0f} images/s, {:.1f} % "
        "of the time spent waiting for them",
        rates_.front(), 100 * first_wait_);
  }
  std::string figures;
  for (size_t i = 0; i < rates_.size(); ++i) {
    figures += fmt::format("{}{:.0f} % on the GPU {:.0f}", i == 0 ? "" : ", ",
                           100 * options_.shares[i], rates_[i]);
  }
  return fmt::format("data.gpu_decode: nvJPEG decodes {:.0f} % of the JPEG files (images/s: {})",
                     100 * share_, figures);
}

}  // namespace whisker
