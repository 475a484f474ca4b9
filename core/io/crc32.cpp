#include "core/io/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace whisker {
namespace {

// tables[k][b]: the CRC of byte b followed by k zero bytes ("slicing by 8", Kounavis and Berry
// 2005).
template <uint32_t polynomial>
constexpr std::array<std::array<uint32_t, 256>, 8> tables_of = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0u);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = (previous >> 8) ^ tables[0][previous & 0xFF];
    }
  }
  return tables;
}();

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

uint32_t word(const std::byte* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

template <uint32_t polynomial>
uint32_t crc_of(std::span<const std::byte> bytes) {
  const auto& crc_tables = tables_of<polynomial>;
  uint32_t crc = 0xFFFFFFFFu;
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  for (; end - at >= 8; at += 8) {
    const uint32_t low = crc ^ word(at), high = word(at + 4);
    crc = crc_tables[7][low & 0xFF] ^ crc_tables[6][low >> 8 & 0xFF] ^
          crc_tables[5][low >> 16 & 0xFF] ^ crc_tables[4][low >> 24] ^ crc_tables[3][high & 0xFF] ^
          crc_tables[2][high >> 8 & 0xFF] ^ crc_tables[1][high >> 16 & 0xFF] ^
          crc_tables[0][high >> 24];
  }
  for (; at != end; ++at) {
    crc = (crc >> 8) ^ crc_tables[0][(crc ^ std::to_integer<uint32_t>(*at)) & 0xFF];
  }
  return ~crc;
}

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes) {
  return crc_of<0xEDB88320u>(bytes);
}

uint32_t crc32c(std::span<const std::byte> bytes) {
  return crc_of<0x82F63B78u>(bytes);
}

}  // namespace whisker
