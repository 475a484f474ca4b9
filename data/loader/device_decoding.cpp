#include "data/loader/device_decoding.h"

#include "data/staging/jpeg_staging.h"

#include <utility>

#include <fmt/format.h>

namespace whisker {

DeviceDecoding::DeviceDecoding(std::shared_ptr<JpegDecoder> decoder, double share)
    : decoder_(std::move(decoder)), share_(decoder_ ? share : -1) {}

void DeviceDecoding::set_share(double share) {
  const std::lock_guard lock(mutex_);
  if (!dropped_) share_ = share;
}

double DeviceDecoding::share() const {
  const std::lock_guard lock(mutex_);
  return share_;
}

void DeviceDecoding::drop() {
  const std::lock_guard lock(mutex_);
  drop_locked();
}

void DeviceDecoding::drop_locked() {
  decoder_.reset();
  share_ = 0;
  dropped_ = true;
}

bool DeviceDecoding::active() const {
  const std::lock_guard lock(mutex_);
  return decoder_ != nullptr;
}

std::string DeviceDecoding::take_note() {
  const std::lock_guard lock(mutex_);
  return std::exchange(note_, {});
}

void DeviceDecoding::begin(ImageRows& images) const {
  const std::lock_guard lock(mutex_);
  images.decoder = decoder_;
  images.jpeg_share = share_;
}

void DeviceDecoding::finish(ImageRows& images, int64_t rows) {
  constexpr int most_refused = 3;
  if (!images.decoder) return;
  const std::string refusal = decode_packed(images, rows);
  const std::lock_guard lock(mutex_);
  if (images.decoded) refused_in_row_ = 0;
  if (refusal.empty() || !decoder_) return;
  if (++refused_in_row_ == most_refused) {
    drop_locked();
    note_ = fmt::format(
        "data.gpu_decode: {} batches in a row were refused on the GPU ({}): from here on the CPU "
        "decodes all JPEG files",
        most_refused, refusal);
  } else if (!std::exchange(noted_, true)) {
    note_ = fmt::format(
        "data.gpu_decode: JPEG files of a batch were refused on the GPU and decoded by the CPU "
        "({})",
        refusal);
  }
}

}  // namespace whisker
