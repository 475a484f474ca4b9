// The two inner loops of resize(), portable and in AVX2, chosen at run time. Both do the same
// integer arithmetic, so their results are equal bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace whisker {

/// Where each output sample's source samples start, and its 2 * pairs fixed_weight()s, zero behind
/// the last. A weight w is kept as w = high * 2^11 + low with 0 <= low < 2^11, so that 16-bit
/// products do; the halves lie in pairs: high0 high1 low0 low1.
struct AxisWeights {
  static constexpr int low_bits = 11;

  int pairs = 0;
  std::vector<int32_t> start;   // (out)
  std::vector<int16_t> halves;  // (out, pairs, 4)

  int count() const { return static_cast<int>(start.size()); }
  const int16_t* of(int i) const {
    return halves.data() + static_cast<size_t>(i) * static_cast<size_t>(pairs) * 4;
  }
};

struct ResizeKernels {
  const char* name;
  /// One source row (W, 3) to one output row (W_out, 3). Reads horizontal_overread() bytes past the
  /// row and writes up to 4 bytes past the output row.
  void (*horizontal)(const uint8_t* row, const AxisWeights& columns, uint8_t* out);
  /// Does what horizontal does, for two rows at once.
  void (*horizontal_pair)(const uint8_t* row0, const uint8_t* row1, const AxisWeights& columns,
                          uint8_t* out0, uint8_t* out1);
  /// Output row i: the weighted sum of `rows.pairs * 2` source rows of `bytes` bytes from `first`
  /// on. Rows at or past `end` have weight zero and are not read.
  void (*vertical)(const uint8_t* first, ptrdiff_t stride, const uint8_t* end, int i,
                   const AxisWeights& rows, size_t bytes, uint8_t* out);
};

/// How far past a row's last pixel `horizontal` may read, in bytes.
inline size_t horizontal_overread(const AxisWeights& columns) {
  return static_cast<size_t>(columns.pairs) * 6 + 16;
}

const ResizeKernels& portable_resize_kernels();
/// The fastest for this CPU.
const ResizeKernels& resize_kernels();

}  // namespace whisker
