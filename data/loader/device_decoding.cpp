#include "data/loader/device_decoding.h"

#include "data/staging/jpeg_staging.h"

namespace whisker {

void DeviceDecoding::set_share(double share) {
  const std::lock_guard lock(mutex_);
  share_ = gave_up_ ? 0 : share;
}

double DeviceDecoding::share() const {
  const std::lock_guard lock(mutex_);
  return share_;
}

int64_t DeviceDecoding::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

bool DeviceDecoding::gave_up() const {
  const std::lock_guard lock(mutex_);
  return gave_up_;
}

void DeviceDecoding::drop() {
  const std::lock_guard lock(mutex_);
  decoder_.reset();
}

void DeviceDecoding::begin(ImageRows& images) const {
  const std::lock_guard lock(mutex_);
  images.decoder = decoder_;
  images.jpeg_share = share_;
}

void DeviceDecoding::finish(ImageRows& images, int64_t rows) {
  if (!images.decoder) return;
  const int64_t refused = decode_packed(images, rows);
  const std::lock_guard lock(mutex_);
  refused_ += refused;
  if (images.decoded) refused_in_row_ = 0;
  // Each such batch is decoded by this one thread.
  if (refused > 0 && ++refused_in_row_ == refusals_to_give_up) {
    gave_up_ = true;
    share_ = 0;
  }
}

}  // namespace whisker
