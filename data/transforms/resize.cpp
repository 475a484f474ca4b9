#include "data/transforms/resize.h"

#include "core/error.h"
#include "core/image/image_arithmetic.h"

#include <algorithm>
#include <cstring>

namespace whisker {
namespace {

void put_weight(AxisWeights& weights, int i, int tap, int32_t value) {
  int16_t* pair =
      weights.halves.data() +
      (static_cast<size_t>(i) * static_cast<size_t>(weights.pairs) + static_cast<size_t>(tap / 2)) *
          4;
  pair[tap % 2] = static_cast<int16_t>(value >> AxisWeights::low_bits);
  pair[2 + tap % 2] = static_cast<int16_t>(value & ((1 << AxisWeights::low_bits) - 1));
}

}  // namespace

void make_axis_weights(const ResizeAxis& axis, const ResizeOptions& options,
                       std::vector<double>& exact, AxisWeights& weights) {
  const Resampling resampling = resampling_of(axis, options.interpolation, options.antialias);
  const int most = most_taps(resampling);
  weights.pairs = (most + 1) / 2;
  weights.start.resize(static_cast<size_t>(axis.count));
  weights.halves.assign(static_cast<size_t>(axis.count) * static_cast<size_t>(weights.pairs) * 4,
                        0);
  exact.resize(static_cast<size_t>(most));
  int used = 0;
  for (int i = 0; i < axis.count; ++i) {
    const Taps taps = taps_of(resampling, i);
    double sum = 0;
    for (int tap = 0; tap < taps.last - taps.first; ++tap) {
      const double weight = weight_of(resampling, taps, tap);
      exact[static_cast<size_t>(tap)] = weight;
      sum += weight;
    }
    weights.start[static_cast<size_t>(i)] = taps.first;
    for (int tap = 0; tap < taps.last - taps.first; ++tap) {
      const int32_t fixed = fixed_weight(exact[static_cast<size_t>(tap)], sum);
      if (fixed != 0) used = std::max(used, tap + 1);
      put_weight(weights, i, tap, fixed);
    }
  }
  // The bound on taps is often two above what is used: repack so that kernels skip the zeros.
  const int pairs = std::max((used + 1) / 2, 1);
  if (pairs < weights.pairs) {
    int16_t* to_pairs = weights.halves.data();
    for (int i = 0; i < axis.count; ++i, to_pairs += 4 * pairs) {
      std::memmove(to_pairs, weights.of(i), static_cast<size_t>(pairs) * 4 * sizeof(int16_t));
    }
    weights.pairs = pairs;
    weights.halves.resize(static_cast<size_t>(axis.count) * static_cast<size_t>(pairs) * 4);
  }
}

namespace {

// Output samples in reverse order.
void reverse(AxisWeights& weights) {
  std::reverse(weights.start.begin(), weights.start.end());
  const size_t size = static_cast<size_t>(weights.pairs) * 4;
  for (size_t i = 0, j = weights.start.size() - 1; i < j; ++i, --j) {
    std::swap_ranges(&weights.halves[i * size], &weights.halves[i * size] + size,
                     &weights.halves[j * size]);
  }
}

void check(const ImageView& source, const Box& box, const Rect& window,
           const ResizeOptions& options) {
  if (options.height < 1 || options.width < 1) {
    fail(ErrorKind::usage, "resize: expected a target of at least 1x1, got {}x{}", options.width,
         options.height);
  }
  if (window.left < 0 || window.top < 0 || window.width < 1 || window.height < 1 ||
      window.width > options.width - window.left || window.height > options.height - window.top) {
    fail(ErrorKind::usage, "resize: window {}x{} at ({},{}) is not inside the {}x{} result",
         window.width, window.height, window.left, window.top, options.width, options.height);
  }
  const bool inside = box.x0 >= 0 && box.y0 >= 0 && box.x1 <= source.width &&
                      box.y1 <= source.height && box.x0 < box.x1 && box.y0 < box.y1;
  if (!inside) {
    fail(ErrorKind::usage, "resize: box ({}, {}, {}, {}) is empty or leaves the {}x{} image",
         box.x0, box.y0, box.x1, box.y1, source.width, source.height);
  }
}

// A row followed by enough readable bytes: the source's own, or a copy when its buffer ends too
// soon.
const uint8_t* readable_row(const ImageView& source, int y, size_t overread,
                            std::vector<uint8_t>& copy) {
  const size_t bytes = static_cast<size_t>(source.width) * 3;
  const size_t offset = static_cast<size_t>(y) * static_cast<size_t>(source.stride);
  if (offset + bytes + overread <= source.readable) return source.row(y);
  copy.resize(bytes + overread);
  std::memcpy(copy.data(), source.row(y), bytes);
  return copy.data();
}

}  // namespace

void resize(const ImageView& source, const Box& box, const ResizeOptions& options, Image& out,
            ResizeScratch& scratch) {
  const Rect window = options.window.value_or(Rect{0, 0, options.width, options.height});
  check(source, box, window, options);
  const ResizeKernels& kernels = resize_kernels();
  AxisWeights& rows = scratch.rows;
  make_axis_weights({source.height, box.y0, box.y1, options.height, window.top, window.height},
                    options, scratch.exact, rows);
  out.reshape(window.height, window.width);
  const size_t bytes = static_cast<size_t>(window.width) * 3;

  const uint8_t* between = source.rgb;
  ptrdiff_t stride = source.stride;
  int first_row = 0;
  int row_count = source.height;
  const bool columns_change = options.width != source.width || box.x0 != 0 ||
                              box.x1 != source.width || window.width != options.width ||
                              options.flip_horizontal;
  if (columns_change) {
    make_axis_weights({source.width, box.x0, box.x1, options.width, window.left, window.width},
                      options, scratch.exact, scratch.columns);
    if (options.flip_horizontal) reverse(scratch.columns);
    first_row = rows.start.front();
    row_count = std::min(rows.start.back() + 2 * rows.pairs, source.height) - first_row;
    stride = static_cast<ptrdiff_t>((bytes + 4 + 31) / 32 * 32);
    scratch.between.resize(static_cast<size_t>(stride) * static_cast<size_t>(row_count));
    const size_t overread = horizontal_overread(scratch.columns);
    int y = 0;
    for (; y + 1 < row_count; y += 2) {
      uint8_t* to = scratch.between.data() + stride * y;
      const uint8_t* row0 = readable_row(source, first_row + y, overread, scratch.last_row);
      if (row0 == scratch.last_row.data()) break;
      const uint8_t* row1 = readable_row(source, first_row + y + 1, overread, scratch.last_row);
      kernels.horizontal_pair(row0, row1, scratch.columns, to, to + stride);
    }
    for (; y < row_count; ++y) {
      kernels.horizontal(readable_row(source, first_row + y, overread, scratch.last_row),
                         scratch.columns, scratch.between.data() + stride * y);
    }
    between = scratch.between.data();
  }
  const uint8_t* end = between + stride * (row_count - 1) + static_cast<ptrdiff_t>(bytes);
  for (int i = 0; i < window.height; ++i) {
    const int from = rows.start[static_cast<size_t>(i)] - first_row;
    kernels.vertical(between + stride * from, stride, end, i, rows, bytes,
                     out.row(options.flip_vertical ? window.height - 1 - i : i));
  }
}

void resize(const ImageView& source, const ImageRecord& record, Image& out,
            ResizeScratch& scratch) {
  const ResizeAxis& columns = record.columns;
  const ResizeAxis& rows = record.rows;
  resize(source, {columns.from, rows.from, columns.to, rows.to},
         {.height = rows.out,
          .width = columns.out,
          .interpolation = record.interpolation,
          .antialias = record.antialias,
          .window = Rect{columns.first, rows.first, columns.count, rows.count},
          .flip_horizontal = record.flip_horizontal,
          .flip_vertical = record.flip_vertical},
         out, scratch);
}

void place_on_black(const Image& image, const Rect& place, int height, int width, Image& out) {
  out.reshape(height, width);
  std::fill(out.rgb.begin(), out.rgb.end(), uint8_t{0});
  for (int y = 0; y < place.height; ++y) {
    std::memcpy(out.row(place.top + y) + ptrdiff_t{3} * place.left, image.row(y),
                static_cast<size_t>(place.width) * 3);
  }
}

}  // namespace whisker
