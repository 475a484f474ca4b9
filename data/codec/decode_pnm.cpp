// PBM, PGM and PPM (P1 to P6), read by hand: stb_image overflows on some. Samples of any maximum
// become 8 bits as sample * 255 / maximum, rounded; of the maximum 65535, which says 16 bits and no
// more, the lowest DecodeRules::png_bits count. Of several images in a file the first is read.
#include "core/error.h"
#include "data/codec/decode_formats.h"

#include <algorithm>
#include <limits>

namespace whisker::formats {
namespace {

bool is_space(uint8_t byte) {
  return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

bool is_digit(uint8_t byte) {
  return byte >= '0' && byte <= '9';
}

// Numbers in decimal digits, between blanks and comments.
class PnmReader {
 public:
  explicit PnmReader(Bytes bytes) : bytes_(bytes) {}

  int64_t number(const char* what, int64_t most) {
    skip_blanks();
    if (at_ == bytes_.size()) fail(ErrorKind::data, "truncated PNM: no {}", what);
    if (!is_digit(bytes_[at_])) {
      fail(ErrorKind::data, "damaged PNM: no {} at byte {}", what, at_);
    }
    int64_t value = 0;
    for (; at_ < bytes_.size() && is_digit(bytes_[at_]); ++at_) {
      value = std::min<int64_t>(10 * value + bytes_[at_] - '0', most + 1);
    }
    if (value > most) fail(ErrorKind::data, "damaged PNM: {} above {}", what, most);
    return value;
  }
  // One digit: those of P1 may follow each other without blanks.
  uint32_t bit() {
    skip_blanks();
    if (at_ == bytes_.size()) fail(ErrorKind::data, "truncated PNM: its pixels end too early");
    if (bytes_[at_] != '0' && bytes_[at_] != '1') {
      fail(ErrorKind::data, "damaged PNM: no bit at byte {}", at_);
    }
    return bytes_[at_++] - uint32_t{'0'};
  }
  // What follows the single blank after the header.
  Bytes raster() {
    if (at_ < bytes_.size() && !is_space(bytes_[at_])) {
      fail(ErrorKind::data, "damaged PNM: no blank at byte {}", at_);
    }
    return bytes_.subspan(std::min(at_ + 1, bytes_.size()));
  }

 private:
  void skip_blanks() {
    for (; at_ < bytes_.size(); ++at_) {
      if (bytes_[at_] == '#') {
        while (at_ + 1 < bytes_.size() && bytes_[at_] != '\n' && bytes_[at_] != '\r') ++at_;
      } else if (!is_space(bytes_[at_])) {
        return;
      }
    }
  }

  Bytes bytes_;
  size_t at_ = 2;  // behind "P6"
};

constexpr int64_t deep_most = 65535;

struct PnmHeader {
  bool text, bits;  // samples in digits; a bit each, 1 being black
  int channels;
  int64_t width, height, most;  // `most`: the maximum

  size_t row_samples() const { return static_cast<size_t>(width * channels); }
  size_t sample_bytes() const { return most > 255 ? 2 : 1; }
  size_t row_bytes() const {
    return bits ? (row_samples() + 7) / 8 : row_samples() * sample_bytes();
  }
};

PnmHeader read_pnm_header(Bytes bytes, PnmReader& reader) {
  const int kind = bytes[1] - '0';
  PnmHeader header{.text = kind <= 3,
                   .bits = kind == 1 || kind == 4,
                   .channels = kind == 3 || kind == 6 ? 3 : 1,
                   .width = 0,
                   .height = 0,
                   .most = 1};
  constexpr int64_t largest = std::numeric_limits<int32_t>::max();
  header.width = reader.number("width", largest);
  header.height = reader.number("height", largest);
  if (!header.bits) header.most = reader.number("maximum", deep_most);
  if (header.most == 0) fail(ErrorKind::data, "damaged PNM: maximum 0");
  check_extents(header.width, header.height, std::numeric_limits<int64_t>::max());
  return header;
}

// Larger samples than `most` are `most`, as in Pillow.
uint8_t to_8_bits(uint32_t sample, const PnmHeader& header, uint32_t most) {
  if (header.bits) return sample == 0 ? 255 : 0;
  return static_cast<uint8_t>((std::min(sample, most) * 510 + most) / (2 * most));
}

}  // namespace

StoredHeader pnm_header(Bytes bytes) {
  PnmReader reader(bytes);
  const PnmHeader header = read_pnm_header(bytes, reader);
  return {.height = static_cast<int>(header.height), .width = static_cast<int>(header.width)};
}

std::optional<size_t> pnm_end(Bytes bytes) {
  PnmReader reader(bytes);
  const PnmHeader header = read_pnm_header(bytes, reader);
  if (header.text) return std::nullopt;
  return bytes.size() - reader.raster().size() +
         static_cast<size_t>(header.height) * header.row_bytes();
}

bool is_deep_pnm(Bytes bytes) {
  try {
    PnmReader reader(bytes);
    return read_pnm_header(bytes, reader).most == deep_most;
  } catch (const Error&) {
    return false;
  }
}

Samples decode_pnm(Bytes bytes, int png_bits, Image& out) {
  PnmReader reader(bytes);
  const PnmHeader header = read_pnm_header(bytes, reader);
  const size_t row_samples = header.row_samples(), row_bytes = header.row_bytes();
  const auto rows = static_cast<size_t>(header.height);
  const Bytes raster = header.text ? Bytes() : reader.raster();
  // A digit of text takes a byte: checked first, so that a short file allocates nothing.
  const size_t needed = header.text ? rows * row_samples : rows * row_bytes;
  if ((header.text ? bytes.size() : raster.size()) < needed) {
    fail(ErrorKind::data, "truncated PNM: {}x{} pixels do not fit in {} bytes", header.width,
         header.height, bytes.size());
  }
  out.reshape(static_cast<int>(header.height), static_cast<int>(header.width));
  uint8_t* to = out.rgb.data();
  const int copies = header.channels == 3 ? 1 : 3;
  const bool deep = header.most == deep_most;
  const auto most = static_cast<uint32_t>(deep ? (int64_t{1} << png_bits) - 1 : header.most);
  Samples samples;
  for (size_t y = 0; y < rows; ++y) {
    const uint8_t* row = header.text ? nullptr : raster.data() + y * row_bytes;
    for (size_t i = 0; i < row_samples; ++i) {
      uint32_t sample = 0;
      if (header.text) {
        sample = header.bits ? reader.bit()
                             : static_cast<uint32_t>(reader.number("sample", header.most));
      } else if (header.bits) {
        sample = row[i / 8] >> (7 - i % 8) & 1u;
      } else {
        sample = header.sample_bytes() == 1 ? row[i] : uint32_t{row[2 * i]} << 8 | row[2 * i + 1];
      }
      if (deep) samples.largest = std::max(samples.largest, sample);
      to = std::fill_n(to, copies, to_8_bits(sample, header, most));
    }
  }
  return samples;
}

}  // namespace whisker::formats
