// Images that a device decodes. A worker checks the file and keeps it with its record; the thread
// that finishes the batch has the device decode all of its files at once, and decodes those that
// the device refuses. Either way the records then say where the pixels are.
#pragma once

#include "data/codec/decode.h"
#include "data/staging/image_memory.h"

#include <cstdint>
#include <span>
#include <string>

namespace whisker {

/// Whether the rows' decoder gets the file of row `row`: always the same rows for the same share.
bool row_for_decoder(const ImageRows& rows, int64_t row);

struct JpegFile {
  std::span<const uint8_t> bytes;
  bool known = false;  ///< was accepted before, with these bytes
  ImageHeader header = {};
};
/// Keeps `file` in row `row`, beside its record, if it is plain and the decoder accepts it.
bool pack_jpeg(const JpegFile& file, ImageRows& rows, int64_t row);

/// Decodes what pack_jpeg() kept in the first `count` rows. Returns "", or why the device refused
/// and the host decoded.
std::string decode_packed(ImageRows& rows, int64_t count);

}  // namespace whisker
