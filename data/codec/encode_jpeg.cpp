// libjpeg's compressor into memory. Its errors leave by longjmp, so nothing with a destructor lives
// between setjmp and the calls.
#include "data/codec/encode_jpeg.h"

#include "core/error.h"

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>

namespace whisker {
namespace {

struct Failure {
  jpeg_error_mgr manager;  // first: libjpeg sees only this
  std::jmp_buf back;
  std::array<char, JMSG_LENGTH_MAX> message;
};

void leave(j_common_ptr info) {
  auto* const failure = reinterpret_cast<Failure*>(info->err);
  info->err->format_message(info, failure->message.data());
  std::longjmp(failure->back, 1);
}

/// The compressed file in malloc'ed memory; false with a message in `failure`.
bool compress(const Image& image, const JpegOptions& options, Failure& failure,
              unsigned char*& bytes, unsigned long& size) {
  jpeg_compress_struct info;
  info.err = jpeg_std_error(&failure.manager);
  failure.manager.error_exit = leave;
  if (setjmp(failure.back) != 0) {
    jpeg_destroy_compress(&info);
    return false;
  }
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, options.quality, TRUE);
  info.dct_method = JDCT_ISLOW;
  jpeg_start_compress(&info, TRUE);
  if (!options.comment.empty()) {
    jpeg_write_marker(&info, JPEG_COM, reinterpret_cast<const JOCTET*>(options.comment.data()),
                      static_cast<unsigned>(options.comment.size()));
  }
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.row(static_cast<int>(info.next_scanline)));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  return true;
}

}  // namespace

std::vector<uint8_t> encode_jpeg(const Image& image, const JpegOptions& options) {
  if (image.height < 1 || image.width < 1) {
    fail(ErrorKind::usage, "encode_jpeg: expected an image, got {} x {} pixels.", image.width,
         image.height);
  }
  Failure failure;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const bool good = compress(image, options, failure, bytes, size);
  std::vector<uint8_t> file;
  if (good) file.assign(bytes, bytes + size);
  std::free(bytes);
  if (!good) fail(ErrorKind::internal, "encode_jpeg: {}.", failure.message.data());
  return file;
}

}  // namespace whisker
