// WebP files for tests, by libwebp's encoder, and the container around them.
#pragma once

#include "tests/support/image_files.h"

#include <span>
#include <string_view>

namespace whisker::test {

struct WebpSpec {
  bool lossless = false;
  bool alpha = false;  ///< of pixel (x, y): alpha_at(x, y)
  float quality = 75;
};

uint8_t alpha_at(int x, int y);

Buffer write_webp(const Image& image, const WebpSpec& spec = {});

/// A chunk of a RIFF file, padded to an even length.
void append_webp_chunk(Buffer& chunks, std::string_view type, std::span<const uint8_t> body);
/// The file that holds `chunks`.
Buffer riff(std::span<const uint8_t> chunks);
/// The chunks of a file.
Buffer webp_chunks(std::span<const uint8_t> file);
/// VP8X's body: which features the file of width x height pixels has.
Buffer extended_header(uint8_t flags, int width, int height);

}  // namespace whisker::test
