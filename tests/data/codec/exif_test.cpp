// Orientation as Pillow's exif_transpose finds it, and as versions before data.rules found it.
#include "data/codec/exif.h"

#include "core/error.h"
#include "data/codec/decode.h"
#include "tests/support/image_files.h"
#include "tests/support/webp_files.h"

#include <string>

#include <gtest/gtest.h>

namespace whisker {
namespace {

using test::Buffer;

constexpr int rules_before = 1;

Buffer text_bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

Buffer joined(std::initializer_list<Buffer> parts) {
  Buffer all;
  for (const Buffer& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

const Buffer prefix = text_bytes(std::string_view("Exif\0\0", 6));

struct TiffEntry {
  uint32_t tag = 0x0112, type = 3, count = 1, value = 6;
};

// Little-endian.
Buffer tiff_block(std::initializer_list<TiffEntry> entries) {
  Buffer block = text_bytes(std::string_view("II*\0\x08\0\0\0", 8));
  const auto put = [&](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) block.push_back(static_cast<uint8_t>(value >> (8 * i)));
  };
  put(static_cast<uint32_t>(entries.size()), 2);
  for (const TiffEntry& entry : entries) {
    put(entry.tag, 2);
    put(entry.type, 2);
    put(entry.count, 4);
    put(entry.value, 4);
  }
  put(0, 4);
  return block;
}

const std::string xmp_packet = R"(<x tiff:Orientation="6"/>)";

struct Said {
  int now, before;
};

Said orientation(const Buffer& exif, const std::string& xmp = "") {
  const Buffer packet = text_bytes(xmp);
  const OrientationTags tags{.exif = exif, .xmp = packet};
  return {exif_orientation(tags, newest_data_rules), exif_orientation(tags, rules_before)};
}

void expect_said(const Said& said, int now, int before) {
  EXPECT_EQ(said.now, now);
  EXPECT_EQ(said.before, before);
}

TEST(ExifOrientation, IsPillows) {
  const Buffer plain = tiff_block({{}});
  expect_said(orientation(plain), 6, 6);
  expect_said(orientation(test::exif_block(8, false)), 8, 8);
  expect_said(orientation(joined({prefix, plain})), 6, 1);
  expect_said(orientation(joined({prefix, prefix, plain})), 6, 1);
  expect_said(orientation(joined({prefix, prefix, prefix, plain})), 1, 1);
  expect_said(orientation(tiff_block({{.type = 4}})), 6, 1);   // LONG
  expect_said(orientation(tiff_block({{.type = 9}})), 6, 1);   // SLONG
  expect_said(orientation(tiff_block({{.type = 1}})), 1, 1);   // BYTE: a text in Pillow
  expect_said(orientation(tiff_block({{.count = 0}})), 1, 1);  // as if it were missing
  expect_said(orientation(tiff_block({{.count = 2, .value = 60}})), 1, 1);
  expect_said(orientation(tiff_block({{.value = 0}})), 1, 1);
  expect_said(orientation(tiff_block({{.value = 9}})), 1, 1);
  expect_said(orientation(tiff_block({{.value = 3}, {.value = 8}})), 8, 3);  // the last counts
  expect_said(orientation(text_bytes("XX*")), 1, 1);
}

TEST(ExifOrientation, XmpCountsWhereExifHasNone) {
  expect_said(orientation({}, xmp_packet), 6, 1);
  expect_said(orientation({}, "<tiff:Orientation>3</tiff:Orientation>"), 3, 1);
  expect_said(orientation({}, "tiff:Orientation='3' tiff:Orientation=\"8\""), 8, 1);
  expect_said(orientation({}, "tiff:Orientation=\"x"), 1, 1);
  expect_said(orientation(tiff_block({{.tag = 0x0110}}), xmp_packet), 6, 1);
  expect_said(orientation(tiff_block({{.count = 0}}), xmp_packet), 6, 1);
  expect_said(orientation(tiff_block({{.value = 3}}), xmp_packet), 3, 3);
  expect_said(orientation(tiff_block({{.value = 0}}), xmp_packet), 1, 1);
  expect_said(orientation(tiff_block({{.type = 1}}), xmp_packet), 1, 1);
}

// A 9 x 5 image whose file says 6 is 5 x 9 upright, in whichever place the file says it.
Said width_of(const Buffer& file) {
  const auto by = [&](int rules) {
    Decoded decoded;
    decode(file, {.rules = {.version = rules}}, decoded);
    const ImageHeader header = read_header(file, default_max_pixels, {.version = rules});
    EXPECT_EQ(header.width, decoded.image.width);
    return decoded.image.width;
  };
  return {by(newest_data_rules), by(rules_before)};
}

Buffer jpeg_with(std::initializer_list<Buffer> blocks) {
  Buffer file = test::write_jpeg(test::sample_image(9, 5));
  Buffer segments;
  for (const Buffer& block : blocks) {
    const size_t length = block.size() + 2;
    segments =
        joined({segments,
                {0xFF, 0xE1, static_cast<uint8_t>(length >> 8), static_cast<uint8_t>(length)},
                block});
  }
  file.insert(file.begin() + 2, segments.begin(), segments.end());
  return file;
}

TEST(ExifOrientation, OfJpegFiles) {
  const Buffer plain = joined({prefix, tiff_block({{}})});
  const Buffer xmp = joined(
      {text_bytes(std::string_view("http://ns.adobe.com/xap/1.0/\0", 29)), text_bytes(xmp_packet)});
  expect_said(width_of(jpeg_with({})), 9, 9);
  expect_said(width_of(jpeg_with({plain})), 5, 5);
  expect_said(width_of(jpeg_with({joined({prefix, plain})})), 5, 9);
  expect_said(width_of(jpeg_with({xmp})), 5, 9);
  expect_said(width_of(jpeg_with({xmp, plain})), 5, 5);
  const Buffer none = joined({prefix, tiff_block({{.value = 0}})});
  expect_said(width_of(jpeg_with({none, plain})), 9, 9);  // the first block counts
}

Buffer png_with(const std::string& type, const Buffer& body, bool at_end = false) {
  Buffer file = test::write_png({.width = 9, .height = 5}, [](int, int, int) { return 7u; });
  Buffer chunk;
  test::append_png_chunk(chunk, type, body);
  const auto at = at_end ? file.end() - 12 : file.begin() + 33;
  file.insert(at, chunk.begin(), chunk.end());
  return file;
}

TEST(ExifOrientation, OfPngFiles) {
  const Buffer block = tiff_block({{}});
  expect_said(width_of(png_with("eXIf", block)), 5, 5);
  expect_said(width_of(png_with("eXIf", block, true)), 5, 5);
  expect_said(width_of(png_with("eXIf", joined({prefix, block}))), 5, 9);
  std::string profile = fmt::format("\nexif\n{:8}\n", prefix.size() + block.size());
  for (const uint8_t byte : joined({prefix, block})) profile += fmt::format("{:02x}", byte);
  profile += "\n";
  const Buffer key = text_bytes(std::string_view("Raw profile type exif\0", 22));
  const Buffer text = text_bytes(profile);
  expect_said(width_of(png_with("tEXt", joined({key, text}))), 5, 9);
  expect_said(width_of(png_with("zTXt", joined({key, {0}, test::deflate(text)}), true)), 5, 9);
  expect_said(width_of(png_with("zTXt", joined({key, {0, 1, 2, 3}}))), 9, 9);  // no zlib stream
  expect_said(width_of(png_with("zTXt", key)), 9, 9);
  expect_said(width_of(png_with("tEXt", joined({key, text_bytes("\n\n")}))), 9, 9);
  const Buffer xmp_key = text_bytes(std::string_view("XML:com.adobe.xmp\0", 18));
  const Buffer xmp = text_bytes(xmp_packet);
  expect_said(width_of(png_with("iTXt", joined({xmp_key, {0, 0, 'e', 'n', 0, 0}, xmp}))), 5, 9);
  expect_said(width_of(png_with("iTXt", joined({xmp_key, {1, 0, 0, 0}, test::deflate(xmp)}))), 5,
              9);
  expect_said(width_of(png_with("iTXt", joined({xmp_key, {0}}))), 9, 9);
}

TEST(ExifOrientation, OfWebpFiles) {
  const auto with = [](std::string_view type, const Buffer& body) {
    Buffer chunks;
    const uint8_t flags = type == "EXIF" ? 8 : 4;
    test::append_webp_chunk(chunks, "VP8X", test::extended_header(flags, 9, 5));
    const Buffer own = test::webp_chunks(test::write_webp(test::sample_image(9, 5)));
    chunks.insert(chunks.end(), own.begin(), own.end());
    test::append_webp_chunk(chunks, type, body);
    return test::riff(chunks);
  };
  const Buffer block = tiff_block({{}});
  expect_said(width_of(with("EXIF", block)), 5, 5);
  expect_said(width_of(with("EXIF", joined({prefix, block}))), 5, 5);
  expect_said(width_of(with("EXIF", joined({prefix, prefix, block}))), 5, 9);
  expect_said(width_of(with("XMP ", text_bytes(xmp_packet))), 5, 9);
}

}  // namespace
}  // namespace whisker
