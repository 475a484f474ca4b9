// Which of a loader's JPEG files a decoder on the device gets, and what becomes of a decoder that
// refuses them.
#pragma once

#include "data/picture_memory.h"

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

  /// Of the batches that are begun from now on; 0 for good once the decoder is given up.
  void set_share(double share);
  /// -1: nobody decodes, and nobody found out who should.
  double share() const;
  /// Pictures that the decoder was given and refused: the host decoded them.
  int64_t refused() const;
  /// The decoder refused refusals_to_give_up batches in a row: it gets no more.
  bool gave_up() const;
  static constexpr int refusals_to_give_up = 3;
  /// Batches begun from now on are decoded by the host; the decoder goes when the last one that has
  /// it does.
  void drop();

  /// Tells a batch about to be read who decodes.
  void begin(PictureRows& pictures) const;
  /// Decodes what was left to the decoder of a batch whose `rows` are read.
  void finish(PictureRows& pictures, int64_t rows);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<JpegDecoder> decoder_;
  double share_;
  int64_t refused_ = 0;
  int refused_in_row_ = 0;  // batches
  bool gave_up_ = false;
};

}  // namespace whisker
