// Where an image ends in bytes that may go on behind it, as those of a pipe may.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace whisker {

/// The size of the image that `bytes` begin with; nothing where it is cut or damaged, or its format
/// does not say: samples in digits (P1 to P3).
std::optional<size_t> image_end(std::span<const uint8_t> bytes);

}  // namespace whisker
