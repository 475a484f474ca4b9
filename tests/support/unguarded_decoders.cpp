#include "tests/support/unguarded_decoders.h"

#include <csetjmp>
#include <cstdio>
#include <vector>

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_NO_STDIO
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image.h>
#pragma GCC diagnostic pop

#include <jpeglib.h>

namespace whisker::test {

bool unguarded_stb_accepts(std::span<const uint8_t> bytes) {
  int width = 0;
  int height = 0;
  int channels = 0;
  stbi_uc* pixels = stbi_load_from_memory(bytes.data(), static_cast<int>(bytes.size()), &width,
                                          &height, &channels, 3);
  stbi_image_free(pixels);
  return pixels != nullptr;
}

bool unguarded_libjpeg_accepts(std::span<const uint8_t> bytes) {
  struct Errors : jpeg_error_mgr {
    std::jmp_buf jump;
  } errors;
  jpeg_decompress_struct cinfo{};
  cinfo.err = jpeg_std_error(&errors);
  errors.output_message = [](j_common_ptr) {};
  errors.error_exit = [](j_common_ptr common) {
    std::longjmp(static_cast<Errors*>(common->err)->jump, 1);
  };
  jpeg_create_decompress(&cinfo);
  std::vector<uint8_t> row;
  if (setjmp(errors.jump) != 0) {
    jpeg_destroy_decompress(&cinfo);
    return false;
  }
  jpeg_mem_src(&cinfo, bytes.data(), static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&cinfo, TRUE);
  jpeg_start_decompress(&cinfo);
  row.resize(size_t{cinfo.output_width} * 4);
  while (cinfo.output_scanline < cinfo.output_height) {
    JSAMPROW target = row.data();
    jpeg_read_scanlines(&cinfo, &target, 1);
  }
  jpeg_finish_decompress(&cinfo);
  jpeg_destroy_decompress(&cinfo);
  return true;
}

}  // namespace whisker::test
