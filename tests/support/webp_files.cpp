#include "tests/support/webp_files.h"

#include <stdexcept>

#include <webp/encode.h>

namespace whisker::test {

uint8_t alpha_at(int x, int y) {
  return static_cast<uint8_t>((x * 37 + y * 91) % 256);
}

Buffer write_webp(const Image& image, const WebpSpec& spec) {
  Buffer rgba;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const uint8_t* const rgb = image.row(y) + ptrdiff_t{3} * x;
      rgba.insert(rgba.end(), {rgb[0], rgb[1], rgb[2], spec.alpha ? alpha_at(x, y) : uint8_t{255}});
    }
  }
  WebPConfig config;
  WebPPicture source;
  WebPMemoryWriter writer;
  if (!WebPConfigInit(&config) || !WebPPictureInit(&source)) throw std::runtime_error("libwebp");
  WebPMemoryWriterInit(&writer);
  config.lossless = spec.lossless;
  config.exact = 1;  // keeps the colors of transparent pixels
  config.quality = spec.quality;
  source.use_argb = spec.lossless;
  source.width = image.width;
  source.height = image.height;
  source.writer = WebPMemoryWrite;
  source.custom_ptr = &writer;
  const bool written =
      WebPPictureImportRGBA(&source, rgba.data(), 4 * image.width) && WebPEncode(&config, &source);
  WebPPictureFree(&source);
  const Buffer file(writer.mem, writer.mem + writer.size);
  WebPMemoryWriterClear(&writer);
  if (!written) throw std::runtime_error("libwebp encodes no image");
  return file;
}

namespace {

void append_little_endian(Buffer& bytes, size_t value, int count = 4) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

}  // namespace

void append_webp_chunk(Buffer& chunks, std::string_view type, std::span<const uint8_t> body) {
  chunks.insert(chunks.end(), type.begin(), type.end());
  append_little_endian(chunks, body.size());
  chunks.insert(chunks.end(), body.begin(), body.end());
  if (body.size() % 2 != 0) chunks.push_back(0);
}

Buffer riff(std::span<const uint8_t> chunks) {
  Buffer file = {'R', 'I', 'F', 'F'};
  append_little_endian(file, chunks.size() + 4);
  file.insert(file.end(), {'W', 'E', 'B', 'P'});
  file.insert(file.end(), chunks.begin(), chunks.end());
  return file;
}

Buffer webp_chunks(std::span<const uint8_t> file) {
  return {file.begin() + 12, file.end()};
}

Buffer extended_header(uint8_t flags, int width, int height) {
  Buffer body = {flags, 0, 0, 0};
  append_little_endian(body, static_cast<size_t>(width - 1), 3);
  append_little_endian(body, static_cast<size_t>(height - 1), 3);
  return body;
}

}  // namespace whisker::test
