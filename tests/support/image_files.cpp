#include "tests/support/image_files.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <jpeglib.h>
#include <zlib.h>

namespace whisker::test {

Image sample_image(int width, int height) {
  Image image;
  image.reshape(height, width);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double u = double(x) / width;
      const double v = double(y) / height;
      const bool disc = (u - 0.3) * (u - 0.3) + (v - 0.6) * (v - 0.6) < 0.04;
      uint8_t* rgb = image.row(y) + 3 * x;
      rgb[0] = static_cast<uint8_t>(disc ? 230 : 255 * u);
      rgb[1] = static_cast<uint8_t>(disc ? 40 : 255 * v);
      rgb[2] = static_cast<uint8_t>(127.5 + 100 * std::sin(9 * u + 5 * v) + (disc ? 20 : 0));
    }
  }
  return image;
}

Buffer exif_block(int value, bool little_endian) {
  Buffer block;
  const auto put = [&](uint32_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      const int shift = 8 * (little_endian ? i : bytes - 1 - i);
      block.push_back(static_cast<uint8_t>(number >> shift));
    }
  };
  block.assign(2, little_endian ? 'I' : 'M');
  put(42, 2);
  put(8, 4);
  put(2, 2);  // entries
  put(0x010E, 2), put(2, 2), put(4, 4), put(0, 4);
  put(0x0112, 2), put(3, 2), put(1, 4), put(static_cast<uint32_t>(value), 2), put(0, 2);
  put(0, 4);
  return block;
}

namespace {

// Naive separation: K = 255 - max, and the rest without under-colour removal curves.
void to_cmyk(const uint8_t* rgb, bool complement, uint8_t* cmyk) {
  const int white = std::max({rgb[0], rgb[1], rgb[2], uint8_t{1}});
  for (int c = 0; c < 3; ++c) cmyk[c] = static_cast<uint8_t>(255 - 255 * rgb[c] / white);
  cmyk[3] = static_cast<uint8_t>(255 - white);
  if (complement)
    std::for_each(cmyk, cmyk + 4, [](uint8_t& v) { v = static_cast<uint8_t>(255 - v); });
}

void fill_row(const Image& image, const JpegSpec& spec, int y, uint8_t* row) {
  const uint8_t* rgb = image.row(y);
  for (int x = 0; x < image.width; ++x, rgb += 3) {
    switch (spec.color) {
      case JpegColor::gray:
        row[x] = rgb[1];
        break;
      case JpegColor::rgb:
      case JpegColor::ycc:
        std::copy(rgb, rgb + 3, row + 3 * x);
        break;
      default:
        to_cmyk(rgb, spec.adobe_marker, row + 4 * x);
    }
  }
}

}  // namespace

Buffer write_jpeg(const Image& image, const JpegSpec& spec) {
  jpeg_compress_struct cinfo{};
  jpeg_error_mgr errors{};
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_compress(&cinfo);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&cinfo, &bytes, &size);
  cinfo.image_width = static_cast<JDIMENSION>(image.width);
  cinfo.image_height = static_cast<JDIMENSION>(image.height);
  const bool four = spec.color == JpegColor::cmyk || spec.color == JpegColor::ycck;
  cinfo.input_components = spec.color == JpegColor::gray ? 1 : four ? 4 : 3;
  cinfo.in_color_space = spec.color == JpegColor::gray ? JCS_GRAYSCALE : four ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&cinfo);
  constexpr std::array spaces = {JCS_GRAYSCALE, JCS_RGB, JCS_YCbCr, JCS_CMYK, JCS_YCCK};
  jpeg_set_colorspace(&cinfo, spaces[static_cast<size_t>(spec.color)]);
  if (spec.color == JpegColor::ycc || spec.color == JpegColor::ycck) {
    cinfo.comp_info[0].h_samp_factor = spec.h_samples;
    cinfo.comp_info[0].v_samp_factor = spec.v_samples;
    if (four) {
      cinfo.comp_info[3].h_samp_factor = spec.h_samples;
      cinfo.comp_info[3].v_samp_factor = spec.v_samples;
    }
  }
  if (four && !spec.adobe_marker) cinfo.write_Adobe_marker = FALSE;
  jpeg_set_quality(&cinfo, spec.quality, TRUE);
  cinfo.restart_in_rows = spec.restart_rows;
  if (spec.progressive) jpeg_simple_progression(&cinfo);
  std::vector<jpeg_scan_info> scans;
  for (int i = 0; spec.separate_scans && i < cinfo.num_components; ++i) {
    scans.push_back(
        {.comps_in_scan = 1, .component_index = {i}, .Ss = 0, .Se = 63, .Ah = 0, .Al = 0});
  }
  if (spec.separate_scans) {
    cinfo.scan_info = scans.data();
    cinfo.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&cinfo, TRUE);
  if (spec.orientation != 0) {
    Buffer marker = {'E', 'x', 'i', 'f', 0, 0};
    const Buffer block = exif_block(spec.orientation, spec.orientation % 2 == 0);
    marker.insert(marker.end(), block.begin(), block.end());
    jpeg_write_marker(&cinfo, JPEG_APP0 + 1, marker.data(), static_cast<unsigned>(marker.size()));
  }
  Buffer row(static_cast<size_t>(image.width) * 4);
  for (int y = 0; y < image.height; ++y) {
    fill_row(image, spec, y, row.data());
    JSAMPROW source = row.data();
    jpeg_write_scanlines(&cinfo, &source, 1);
  }
  jpeg_finish_compress(&cinfo);
  jpeg_destroy_compress(&cinfo);
  Buffer file(bytes, bytes + size);
  std::free(bytes);
  return file;
}

Buffer deflate(std::span<const uint8_t> bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  Buffer packed(size);
  if (compress2(packed.data(), &size, bytes.data(), static_cast<uLong>(bytes.size()), 6) != Z_OK) {
    throw std::runtime_error("compress2 failed");
  }
  packed.resize(size);
  return packed;
}

namespace {

void append_u32(Buffer& file, size_t value) {
  for (const int shift : {24, 16, 8, 0}) file.push_back(static_cast<uint8_t>(value >> shift));
}

int paeth(int a, int b, int c) {
  const int p = a + b - c;
  const int pa = std::abs(p - a);
  const int pb = std::abs(p - b);
  const int pc = std::abs(p - c);
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

// One pass: the pixels (x0 + i dx, y0 + j dy), filtered row by row.
struct Pass {
  int x0, y0, dx, dy;
};

void append_pass(const PngSpec& spec, const PngSample& sample, const Pass& pass, Buffer& raw) {
  const int columns = (spec.width - pass.x0 + pass.dx - 1) / pass.dx;
  const int channels = png_channels(spec.color_type);
  if (columns <= 0) return;
  const size_t bits = static_cast<size_t>(columns * channels * spec.bit_depth);
  const size_t step = static_cast<size_t>(std::max(1, channels * spec.bit_depth / 8));
  Buffer above((bits + 7) / 8, 0);
  int filter = 0;
  for (int y = pass.y0; y < spec.height; y += pass.dy, filter = (filter + 1) % 5) {
    Buffer row(above.size(), 0);
    size_t bit = 0;
    for (int x = pass.x0; x < spec.width; x += pass.dx) {
      for (int c = 0; c < channels; ++c) {
        for (int b = spec.bit_depth - 1; b >= 0; --b, ++bit) {
          row[bit / 8] |= static_cast<uint8_t>((sample(x, y, c) >> b & 1) << (7 - bit % 8));
        }
      }
    }
    raw.push_back(static_cast<uint8_t>(filter));
    for (size_t i = 0; i < row.size(); ++i) {
      const int a = i >= step ? row[i - step] : 0;
      const int c = i >= step ? above[i - step] : 0;
      const int b = above[i];
      const std::array predictors = {0, a, b, (a + b) / 2, paeth(a, b, c)};
      raw.push_back(static_cast<uint8_t>(row[i] - predictors[static_cast<size_t>(filter)]));
    }
    above = row;
  }
}

}  // namespace

void append_png_chunk(Buffer& file, const std::string& type, std::span<const uint8_t> body) {
  append_u32(file, body.size());
  const size_t start = file.size();
  file.insert(file.end(), type.begin(), type.end());
  file.insert(file.end(), body.begin(), body.end());
  append_u32(file, ::crc32(0, file.data() + start, static_cast<uInt>(file.size() - start)));
}

int png_channels(int color_type) {
  constexpr std::array channels = {1, 0, 3, 1, 2, 0, 4};
  return channels[static_cast<size_t>(color_type)];
}

Buffer write_png(const PngSpec& spec, const PngSample& sample) {
  Buffer file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  Buffer header;
  append_u32(header, static_cast<size_t>(spec.width));
  append_u32(header, static_cast<size_t>(spec.height));
  for (const int byte : {spec.bit_depth, spec.color_type, 0, 0, spec.interlaced ? 1 : 0}) {
    header.push_back(static_cast<uint8_t>(byte));
  }
  append_png_chunk(file, "IHDR", header);
  if (!spec.exif.empty()) append_png_chunk(file, "eXIf", spec.exif);
  if (!spec.palette.empty()) append_png_chunk(file, "PLTE", spec.palette);
  if (!spec.transparency.empty()) append_png_chunk(file, "tRNS", spec.transparency);
  Buffer raw;
  if (spec.interlaced) {
    constexpr std::array<Pass, 7> adam7 = {Pass{0, 0, 8, 8}, Pass{4, 0, 8, 8}, Pass{0, 4, 4, 8},
                                           Pass{2, 0, 4, 4}, Pass{0, 2, 2, 4}, Pass{1, 0, 2, 2},
                                           Pass{0, 1, 1, 2}};
    for (const Pass& pass : adam7) append_pass(spec, sample, pass, raw);
  } else {
    append_pass(spec, sample, {0, 0, 1, 1}, raw);
  }
  const Buffer packed = deflate(raw);
  const size_t half = packed.size() / 2;
  append_png_chunk(file, "IDAT", std::span(packed).first(half));
  append_png_chunk(file, "IDAT", std::span(packed).subspan(half));
  append_png_chunk(file, "IEND", {});
  return file;
}

Buffer write_bmp(const Image& image) {
  const size_t row_bytes = (static_cast<size_t>(image.width) * 3 + 3) / 4 * 4;
  const size_t size = 54 + row_bytes * static_cast<size_t>(image.height);
  Buffer file;
  const auto put = [&](size_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file.push_back(static_cast<uint8_t>(value >> (8 * i)));
  };
  put('B', 1), put('M', 1), put(size, 4), put(0, 4), put(54, 4), put(40, 4);
  put(static_cast<size_t>(image.width), 4), put(static_cast<size_t>(image.height), 4);
  put(1, 2), put(24, 2), put(0, 4), put(0, 4), put(0, 4), put(0, 4), put(0, 4), put(0, 4);
  for (int y = image.height - 1; y >= 0; --y) {
    for (int x = 0; x < image.width; ++x) {
      for (int c = 2; c >= 0; --c) file.push_back(image.row(y)[3 * x + c]);
    }
    file.resize(file.size() + row_bytes - static_cast<size_t>(image.width) * 3);
  }
  return file;
}

}  // namespace whisker::test
