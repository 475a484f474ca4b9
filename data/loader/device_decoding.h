// Decides which of a loader's JPEG files the device decodes, and drops a decoder that refuses them.
#pragma once

#include "data/staging/image_memory.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace whisker {

/// Any thread may call it.
class DeviceDecoding {
 public:
  /// `decoder` gets this share of each batch's JPEG files; null: there is none.
  DeviceDecoding(std::shared_ptr<JpegDecoder> decoder, double share)
      : decoder_(std::move(decoder)), share_(decoder_ ? share : -1) {}

  /// For batches that begin from now on; stays 0 once the decoder is given up.
  void set_share(double share);
  /// -1: there is no decoder, and no measured share.
  double share() const;
  /// Images that the decoder refused and the host decoded.
  int64_t refused() const;
  /// Whether the decoder refused refusals_to_give_up batches in a row and is no longer used.
  bool gave_up() const;
  static constexpr int refusals_to_give_up = 3;
  /// The host decodes batches that begin from now on; the decoder is freed after its last batch.
  void drop();

  /// Sets the decoder of a batch that is about to be read.
  void begin(ImageRows& images) const;
  /// Decodes the files of `images` that were left to the decoder; its `rows` have been read.
  void finish(ImageRows& images, int64_t rows);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<JpegDecoder> decoder_;
  double share_;
  int64_t refused_ = 0;
  int refused_in_row_ = 0;  // batches
  bool gave_up_ = false;
};

}  // namespace whisker
