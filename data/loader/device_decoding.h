// Decides which of a loader's JPEG files the device decodes, and drops a decoder that refuses them.
#pragma once

#include "data/staging/image_memory.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace whisker {

/// Any thread may call it.
class DeviceDecoding {
 public:
  /// `decoder` gets this share of each batch's JPEG files; null: there is none.
  DeviceDecoding(std::shared_ptr<JpegDecoder> decoder, double share);

  /// Sets the share for batches that begin from now on, unless the decoder was dropped.
  void set_share(double share);
  /// -1: there is no decoder, and no share was set.
  double share() const;
  /// The host decodes batches that begin from now on; the decoder is freed after its last batch.
  void drop();
  /// Whether there is a decoder, and it has not been dropped.
  bool active() const;
  /// What the decoder refused, and what was made of that; "" for nothing new.
  std::string take_note();

  /// Sets the decoder of a batch that is about to be read.
  void begin(ImageRows& images) const;
  /// Decodes the files of `images` that were left to the decoder; its `rows` have been read. Drops
  /// a decoder that refuses three batches in a row: each is decoded by this one thread.
  void finish(ImageRows& images, int64_t rows);

 private:
  void drop_locked();

  mutable std::mutex mutex_;
  std::shared_ptr<JpegDecoder> decoder_;
  double share_;
  bool dropped_ = false;
  int refused_in_row_ = 0;  // batches
  bool noted_ = false;
  std::string note_;
};

}  // namespace whisker
