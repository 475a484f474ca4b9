// Decoding JPEG files on a device, batch by batch, beside the host's own decoder. Files were
// checked before (data/codec/plain_jpeg.h): only whole, plain ones come here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace whisker {

/// A file, and where its upright pixels (H, W, 3) go.
struct JpegImage {
  std::span<const uint8_t> bytes;  ///< in host memory
  int height = 0;                  ///< as stored
  int width = 0;
  int orientation = 1;  ///< EXIF, 1-8: what turns the stored pixels upright
  int64_t at = 0;       ///< first byte in DecodedImages::memory()
};

/// Decoded pixels in a device's memory, there for a pipeline to read until this object goes.
class DecodedImages {
 public:
  virtual ~DecodedImages() = default;
  virtual const uint8_t* memory() const = 0;
};

/// Thread-safe.
class JpegDecoder {
 public:
  virtual ~JpegDecoder() = default;
  /// Who decodes: "nvJPEG 13.0, hardware engine". Starts what is needed; "" when that fails.
  virtual std::string description() = 0;
  /// Whether decode() can be expected to take this file.
  virtual bool accepts(std::span<const uint8_t> file) = 0;
  /// Decodes all images into memory of `bytes` bytes and waits for it. Pixels may differ from the
  /// host decoder's by a few levels. Null when the device refuses any of them or has no memory
  /// left: the host decodes them then.
  virtual std::shared_ptr<const DecodedImages> decode(std::span<const JpegImage> images,
                                                      int64_t bytes) = 0;
  /// Why the last decode() that gave nothing did so; "" if none did.
  virtual std::string refusal() const = 0;
};

}  // namespace whisker
