// Pictures that a device decodes. A worker checks the file and notes what is to become of it;
// whoever finishes the batch has the device decode all of its files at once, and the host those
// that the device does not take. Either way the records then say where the pixels are.
#pragma once

#include "data/decode.h"
#include "data/picture_memory.h"

#include <cstdint>
#include <span>

namespace whisker {

/// Whether row `row` is one of those whose files the rows' decoder gets: a fixed pattern, so that
/// the same share always takes the same rows.
bool row_for_decoder(const PictureRows& rows, int64_t row);

struct JpegToStage {
  std::span<const uint8_t> file;
  bool known = false;         ///< was taken before, with these bytes
  PictureHeader header = {};  ///< the file's
  Rect crop = {};             ///< of the upright picture
};
/// Takes `jpeg` into row `row` if it is plain and the decoder accepts it, or did so before. The
/// caller then writes the row's record, with the crop as its source.
bool stage_jpeg(const JpegToStage& jpeg, PictureRows& rows, int64_t row);

/// Decodes what stage_jpeg() took into the first `count` rows. Returns how many pictures the device
/// refused and the host decoded.
int64_t decode_staged(PictureRows& rows, int64_t count);

}  // namespace whisker
