#include "data/loader/decode_benchmark.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace whisker {

DecodeBenchmark::DecodeBenchmark(DecodeBenchmarkOptions options)
    : options_(std::move(options)), share_(options_.shares.front()), to_skip_(options_.warm_up) {}

void DecodeBenchmark::delivered(const Delivery& delivery) {
  constexpr double least_wait = 0.05;  // fraction of the time, below which the CPU keeps up
  constexpr double least_gain = 1.03;  // over the baseline
  if (finished_ || --to_skip_ >= 0) return;
  images_ += static_cast<double>(delivery.images);
  seconds_ += delivery.seconds;
  waited_ += delivery.waited;
  if (++counted_ < options_.measured) return;
  if (rates_.empty()) first_wait_ = waited_ / std::max(seconds_, 1e-9);
  rates_.push_back(images_ / std::max(seconds_, 1e-9));
  images_ = seconds_ = waited_ = 0;
  counted_ = 0;
  to_skip_ = options_.settle;
  // Where a candidate is slower than the baseline the device is the bottleneck: larger ones lose
  // too.
  const bool slower = rates_.back() < rates_.front();
  finished_ = first_wait_ < least_wait || slower || rates_.size() == options_.shares.size();
  const auto best = std::ranges::max_element(rates_) - rates_.begin();
  const bool gains = rates_[static_cast<size_t>(best)] > least_gain * rates_.front();
  share_ = options_.shares[!finished_ ? rates_.size() : gains ? static_cast<size_t>(best) : 0];
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
