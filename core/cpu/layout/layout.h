// Memory layouts of activations.
#pragma once

#include <cstdint>

namespace whisker::cpu {

enum class Layout : uint8_t {
  plain,    ///< (N, H, W, C), the only one outside the backend
  blocked,  ///< (N, C / block, H, W, block), padded with zero channels: oneDNN's nChw16c or nChw8c
  planar,   ///< (N, C, H, W): images of one or three channels
};

/// Images of `positions` = H W positions and `channels` channels, and their layout. Plain or
/// blocked they are `outer` planes of positions, `inner` adjacent channels each, so that one loop
/// serves both.
struct ImageLayout {
  Layout layout = Layout::plain;
  int64_t n = 0;
  int64_t positions = 0;
  int64_t channels = 0;
  int64_t block = 0;  ///< channels per block, when blocked
  bool operator==(const ImageLayout&) const = default;

  int64_t inner() const { return layout == Layout::blocked ? block : channels; }
  int64_t blocks() const { return layout == Layout::blocked ? (channels + block - 1) / block : 1; }
  int64_t outer() const { return n * blocks(); }
  /// Channels, padding included.
  int64_t lanes() const { return blocks() * inner(); }
  /// Elements, padding included.
  int64_t count() const { return n * positions * lanes(); }
  ImageLayout plain() const { return {.n = n, .positions = positions, .channels = channels}; }
  ImageLayout blocked(int64_t width) const {
    return {.layout = Layout::blocked,
            .n = n,
            .positions = positions,
            .channels = channels,
            .block = width};
  }
};

}  // namespace whisker::cpu
