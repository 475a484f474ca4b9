// CRC-32 of ISO 3309, as in PNG, zip and zlib. It detects damage, but not deliberate forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace whisker {

uint32_t crc32(std::span<const std::byte> bytes);
/// CRC-32 with Castagnoli's polynomial, as in TFRecord files (RFC 3720, appendix B.4).
uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace whisker
