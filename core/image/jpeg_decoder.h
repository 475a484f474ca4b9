// Decoding JPEG files on a device, batch by batch, beside the host's own decoder. Files were
// checked before (data/codec/plain_jpeg.h): only whole, plain ones come here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace whisker {

/// A file, and where its pixels (H, W, 3) go.
struct JpegImage {
  std::span<const uint8_t> bytes;  ///< in host memory
  int height = 0;
  int width = 0;
  int64_t at = 0;  ///< first byte in DecodedImages::memory()
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
  /// Who decodes: "nvJPEG 13.0, JPEG engine".
  virtual std::string description() const = 0;
  /// Whether decode() can be expected to take this file.
  virtual bool accepts(std::span<const uint8_t> file) const = 0;
  /// Decodes all images into memory of `bytes` bytes and waits for it. Pixels may differ from the
  /// host decoder's by a few levels. Throws device when the device refuses any of them or has no
  /// memory left: the host decodes them then.
  virtual std::shared_ptr<const DecodedImages> decode(std::span<const JpegImage> images,
                                                      int64_t bytes) = 0;
};

}  // namespace whisker
