// Hashes of requests: the keys of caches of algorithms.
#pragma once

#include "core/backend/geometry.h"

#include <cstddef>
#include <cstdint>

namespace whisker {

/// FNV-1a over 64-bit words.
class WordHash {
 public:
  /// Integers, enums and truth values.
  template <class... Words>
  WordHash& add(Words... words) {
    ((hash_ = (hash_ ^ static_cast<uint64_t>(words)) * 0x100000001b3ull), ...);
    return *this;
  }
  WordHash& add(const Conv2dGeometry& g) {
    return add(g.n, g.h, g.w, g.c, g.c_out, g.kernel_h, g.kernel_w, g.stride_h, g.stride_w,
               g.pad_top, g.pad_left, g.dilation_h, g.dilation_w, g.groups, g.h_out, g.w_out,
               g.bias, g.activation.kind, g.dtype);
  }
  size_t value() const { return static_cast<size_t>(hash_); }

 private:
  uint64_t hash_ = 0xcbf29ce484222325ull;
};

/// Hashes requests that have a method hash().
struct RequestHash {
  size_t operator()(const auto& request) const { return request.hash(); }
};

}  // namespace whisker
