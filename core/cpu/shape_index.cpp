// Copies between strided walks, and reads and writes by index.
#include "core/backend/shape_index.h"

#include "core/backend/elementwise.h"
#include "core/cpu/cpu_kernels.h"
#include "core/cpu/support/element.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/pointwise.h"
#include "core/cpu/support/strided_rows.h"
#include "core/vectorize.h"

#include <algorithm>
#include <cstring>

namespace whisker::cpu {
namespace {

template <class T>
WHISKER_VECTORIZE void copy_row(const T* x, int64_t x_stride, T* y, int64_t y_stride,
                                int64_t count) {
  if (x_stride == 1 && y_stride == 1) {
    std::memcpy(y, x, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < count; ++i) y[i * y_stride] = x[i * x_stride];
}

WHISKER_VECTORIZE void add_row(const float* x, int64_t x_stride, float* y, int64_t y_stride,
                               int64_t count) {
  if (x_stride == 1 && y_stride == 1) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] += x[i];
    return;
  }
  for (int64_t i = 0; i < count; ++i) y[i * y_stride] += x[i * x_stride];
}

/// Calls fn(source_at, target_at) for every row of the last axis, in parallel.
template <class Fn>
void for_each_copy_row(const CopyGeometry& g, Fn&& fn) {
  if (g.rank == 0) return fn(g.source_offset, g.target_offset);
  for_each_strided_row<2>(
      g.rank, g.extent, {g.source_stride, g.target_stride},
      [&](int64_t, const auto& at) { fn(g.source_offset + at[0], g.target_offset + at[1]); });
}

void check_index(const char* op, int64_t index, int64_t extent) {
  if (index < 0 || index >= extent) {
    fail(ErrorKind::usage, "{}: index {} is outside [0, {})", op, index, extent);
  }
}

class ShapeIndex final : public ShapeIndexKernels, CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  void strided_copy(const CopyGeometry& g, bool add, const Tensor& x, const Tensor& y) override {
    const auto last = static_cast<size_t>(g.rank > 0 ? g.rank - 1 : 0);
    const int64_t length = g.rank > 0 ? g.extent[last] : 1;
    if (add) {
      ViaF32 t(device_.backend, "strided_copy", y);
      const float* from = f32(t.in(x));
      float* to = f32(t.in_out(y));
      for_each_copy_row(g, [&](int64_t source, int64_t target) {
        add_row(from + source, g.source_stride[last], to + target, g.target_stride[last], length);
      });
      return;
    }
    visit_bits(static_cast<int64_t>(size_of(x.dtype())), [&]<class T>() {
      const T* from = static_cast<const T*>(x.raw());
      T* to = static_cast<T*>(y.raw());
      for_each_copy_row(g, [&](int64_t source, int64_t target) {
        copy_row(from + source, g.source_stride[last], to + target, g.target_stride[last], length);
      });
    });
  }

  void gather(const GatherGeometry& g, const Tensor& x, const Tensor& index,
              const Tensor& y) override {
    const int64_t* picks = static_cast<const int64_t*>(index.raw());
    visit_bits(static_cast<int64_t>(size_of(x.dtype())), [&]<class T>() {
      const T* from = static_cast<const T*>(x.raw());
      T* to = static_cast<T*>(y.raw());
      for (int64_t o = 0; o < g.outer; ++o) {
        for (int64_t p = 0; p < g.picks; ++p) {
          const int64_t row = (o * g.picks + p) * g.inner;
          for (int64_t i = 0; i < g.inner; ++i) {
            check_index("gather", picks[row + i], g.extent);
            to[row + i] = from[(o * g.extent + picks[row + i]) * g.inner + i];
          }
        }
      }
    });
  }

  void gather_backward(const GatherGeometry& g, const Tensor& index, const Tensor& dy,
                       const Tensor& dx) override {
    ViaF32 t(device_.backend, "gather", dx);
    const int64_t* picks = static_cast<const int64_t*>(index.raw());
    const float* from = f32(t.in(dy));
    float* to = f32(t.out(dx));
    const Scratch<double> sums = scratch<double>(dx.count());
    std::fill_n(sums.data(), dx.count(), 0.0);
    for (int64_t o = 0; o < g.outer; ++o) {
      for (int64_t p = 0; p < g.picks; ++p) {
        const int64_t row = (o * g.picks + p) * g.inner;
        for (int64_t i = 0; i < g.inner; ++i) {
          sums[(o * g.extent + picks[row + i]) * g.inner + i] += static_cast<double>(from[row + i]);
        }
      }
    }
    for (int64_t i = 0; i < dx.count(); ++i) to[i] = static_cast<float>(sums[i]);
  }

  void embedding(const Tensor& table, const Tensor& index, const Tensor& y) override {
    const int64_t entries = table.extent(0);
    const auto row_bytes = static_cast<size_t>(table.bytes() / std::max<int64_t>(entries, 1));
    const int64_t* picks = static_cast<const int64_t*>(index.raw());
    const char* from = static_cast<const char*>(table.raw());
    char* to = static_cast<char*>(y.raw());
    for (int64_t i = 0; i < index.count(); ++i) {
      check_index("embedding", picks[i], entries);
      std::memcpy(to + static_cast<size_t>(i) * row_bytes,
                  from + static_cast<size_t>(picks[i]) * row_bytes, row_bytes);
    }
  }

  void embedding_backward(const Tensor& index, const Tensor& dy, const Tensor& dtable) override {
    ViaF32 t(device_.backend, "embedding", dtable);
    const int64_t entries = dtable.extent(0), count = index.count();
    const int64_t features = dtable.count() / std::max<int64_t>(entries, 1);
    const int64_t* picks = static_cast<const int64_t*>(index.raw());
    const float* from = f32(t.in(dy));
    float* to = f32(t.out(dtable));
    // Rows by entry, so that those of a frequent token are added in f64: [ends[e - 1], ends[e]).
    const Scratch<int64_t> memory = scratch<int64_t>(entries + 1 + count);
    int64_t *const ends = memory.data() + 1, *const rows = ends + entries;
    std::fill_n(memory.data(), entries + 1, int64_t{0});
    for (int64_t i = 0; i < count; ++i) ++ends[picks[i]];
    for (int64_t e = 0; e < entries; ++e) ends[e] += ends[e - 1];
    for (int64_t i = count - 1; i >= 0; --i) rows[--ends[picks[i]]] = i;
    for (int64_t e = 0; e + 1 < entries; ++e) ends[e] = ends[e + 1];
    if (entries > 0) ends[entries - 1] = count;
    const int team = team_size(entries, rows_grain(features));
    const Scratch<double> sums = scratch<double>(team * features);
    parallel_each(entries, rows_grain(features), [&](int64_t e, int thread) {
      double* const sum = sums.data() + thread * features;
      float* const row = to + e * features;
      if (ends[e - 1] == ends[e]) {
        std::fill_n(row, features, 0.0f);
        return;
      }
      std::fill_n(sum, features, 0.0);
      for (int64_t r = ends[e - 1]; r < ends[e]; ++r) {
        add_to_sums(from + rows[r] * features, sum, features);
      }
      for (int64_t f = 0; f < features; ++f) row[f] = static_cast<float>(sum[f]);
    });
  }

  void one_hot(const Tensor& index, const Tensor& y) override {
    device_.backend.elementwise().fill(0, y);
    const int64_t classes = y.extent(-1);
    const int64_t* picks = static_cast<const int64_t*>(index.raw());
    visit(y.dtype(), [&]<class T>() {
      T* to = static_cast<T*>(y.raw());
      for (int64_t i = 0; i < index.count(); ++i) {
        check_index("one_hot", picks[i], classes);
        to[i * classes + picks[i]] = T(1);
      }
    });
  }
};

}  // namespace

std::shared_ptr<ShapeIndexKernels> make_shape_index(CpuDevice& device) {
  return std::make_shared<ShapeIndex>(device);
}

}  // namespace whisker::cpu
