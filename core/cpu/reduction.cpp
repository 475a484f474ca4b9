// Reductions over any axes, of the elements of a tensor or of the products of two, in f32 or bf16.
// Sums are f64, so that their error does not grow with the number of terms and large ones may
// cancel.
#include "core/backend/reduction.h"

#include "core/cpu/cpu_kernels.h"
#include "core/cpu/layout/blocked_layout.h"
#include "core/cpu/support/element.h"
#include "core/cpu/support/parallel.h"
#include "core/vectorize.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace whisker::cpu {
namespace {

constexpr int64_t stretch = 4096;  // elements of a row that one thread takes at a time

/// What is reduced: elements, or products of elements at the same positions.
template <class T>
struct Elements {
  const T* x;
  float operator[](int64_t i) const { return load(x[i]); }
  Elements operator+(int64_t offset) const { return {x + offset}; }
};
template <class T>
struct Products {
  const T *a, *b;
  float operator[](int64_t i) const { return load(a[i]) * load(b[i]); }
  Products operator+(int64_t offset) const { return {a + offset, b + offset}; }
};

struct Sum {
  static constexpr double start = 0;
  template <class Terms>
  WHISKER_VECTORIZE static double row(Terms x, int64_t count) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]);
    return sum;
  }
  static double combine(double a, double b) {
    return a + b;
  }
};

// A NaN on either side is the result: divergence must be seen.
template <bool Largest>
struct Extreme {
  static constexpr double start = std::numeric_limits<double>::infinity() * (Largest ? -1 : 1);
  static double combine(double a, double b) {
    return (Largest ? a >= b : a <= b) || a != a ? a : b;
  }
  template <class Terms>
  WHISKER_VECTORIZE static double row(Terms x, int64_t count) {
    float best = x[0];
    bool nan = false;
    for (int64_t i = 0; i < count; ++i) {
      best = (Largest ? x[i] > best : x[i] < best) ? x[i] : best;
      nan |= x[i] != x[i];
    }
    return nan ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(best);
  }
};

template <class Op, class Terms>
WHISKER_VECTORIZE void combine_row(Op, Terms x, double* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = Op::combine(y[i], static_cast<double>(x[i]));
}

/// The axes of one kind, without the last axis, as a mixed-radix counter over x.
struct Walk {
  int rank = 0;
  Extents extent{};
  Extents stride{};
  int64_t count = 1;

  int64_t offset(int64_t index) const {
    int64_t at = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const auto i = static_cast<size_t>(axis);
      at += index % extent[i] * stride[i];
      index /= extent[i];
    }
    return at;
  }
};

Walk walk_of(const ReduceGeometry& g, bool reduced) {
  Extents strides{};
  int64_t stride = 1;
  for (int axis = g.rank - 1; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis)] = stride;
    stride *= g.extent[static_cast<size_t>(axis)];
  }
  Walk walk;
  for (size_t axis = 0; static_cast<int>(axis) < g.rank - 1; ++axis) {
    if (g.reduced[axis] != reduced) continue;
    walk.extent[static_cast<size_t>(walk.rank)] = g.extent[axis];
    walk.stride[static_cast<size_t>(walk.rank++)] = strides[axis];
    walk.count *= g.extent[axis];
  }
  return walk;
}

// The last axis is reduced: each result combines whole rows.
template <class Op, class Terms, class T>
void reduce_rows(Allocator& allocator, const Walk& kept, const Walk& reduced, int64_t length,
                 Terms x, T* y, double scale) {
  const int64_t work = reduced.count * length;
  if (kept.count >= 2 * team_size(kept.count * work, pointwise_grain) || kept.count > 64) {
    return parallel_each(kept.count, rows_grain(work), [&](int64_t o, int) {
      double total = Op::start;
      const Terms base = x + kept.offset(o);
      for (int64_t r = 0; r < reduced.count; ++r) {
        total = Op::combine(total, Op::row(base + reduced.offset(r), length));
      }
      store(y[o], static_cast<float>(total * scale));
    });
  }
  // Few results: the threads split the rows of each into parts.
  const int64_t parts_per_row = (length + stretch - 1) / stretch;
  const int64_t parts = reduced.count * parts_per_row;
  const Scratch<double> partial(allocator, parts);
  for (int64_t o = 0; o < kept.count; ++o) {
    const Terms base = x + kept.offset(o);
    parallel_each(parts, rows_grain(std::min(length, stretch)), [&](int64_t p, int) {
      const int64_t at = p % parts_per_row * stretch;
      partial[p] =
          Op::row(base + reduced.offset(p / parts_per_row) + at, std::min(stretch, length - at));
    });
    double total = Op::start;
    for (int64_t p = 0; p < parts; ++p) total = Op::combine(total, partial[p]);
    store(y[o], static_cast<float>(total * scale));
  }
}

// The last axis is kept: rows are combined element by element into a row of results. A long
// reduction onto few rows is cut in as many parts as there are threads.
template <class Op, class Terms, class T>
void reduce_columns(Allocator& allocator, const Walk& kept, const Walk& reduced, int64_t length,
                    Terms x, T* y, double scale) {
  const int team = team_size(kept.count * reduced.count * length, pointwise_grain);
  const int64_t parts = kept.count >= team ? 1 : std::min<int64_t>(team, reduced.count);
  const int64_t jobs = kept.count * parts;
  const Scratch<double> sums(allocator, jobs * length);
  const int64_t work = reduced.count * length / std::max<int64_t>(parts, 1);
  parallel_each(jobs, rows_grain(work), [&](int64_t job, int) {
    double* sum = sums.data() + job * length;
    std::fill_n(sum, length, Op::start);
    const Terms base = x + kept.offset(job / parts);
    const int64_t part = job % parts;
    for (int64_t r = reduced.count * part / parts; r < reduced.count * (part + 1) / parts; ++r) {
      combine_row(Op{}, base + reduced.offset(r), sum, length);
    }
  });
  for (int64_t o = 0; o < kept.count; ++o) {
    for (int64_t i = 0; i < length; ++i) {
      double total = Op::start;
      for (int64_t part = 0; part < parts; ++part) {
        total = Op::combine(total, sums[(o * parts + part) * length + i]);
      }
      store(y[o * length + i], static_cast<float>(total * scale));
    }
  }
}

template <class Op, class Terms, class T>
void reduce_as(Allocator& allocator, const ReduceGeometry& g, Terms x, T* y, double scale) {
  if (g.rank == 0) {
    const double value = Op::combine(Op::start, static_cast<double>(x[0]));
    return store(y[0], static_cast<float>(value * scale));
  }
  const auto last = static_cast<size_t>(g.rank - 1);
  const Walk kept = walk_of(g, false);
  const Walk reduced = walk_of(g, true);
  if (g.reduced[last]) {
    reduce_rows<Op>(allocator, kept, reduced, g.extent[last], x, y, scale);
  } else {
    reduce_columns<Op>(allocator, kept, reduced, g.extent[last], x, y, scale);
  }
}

// Sums over the positions of blocked images: global average pooling. False for any other reduction.
template <class T>
bool reduce_positions(Allocator& allocator, ReduceOp op, const ReduceGeometry& g, const Tensor& x,
                      const Tensor& y) {
  const BlockedForm* form = blocked_form(x);
  if (!form || (op != ReduceOp::sum && op != ReduceOp::mean)) return false;
  const ImageLayout& a = form->layout();
  if (g.rank != 3 || g.reduced[0] || !g.reduced[1] || g.reduced[2] || g.extent[0] != a.n ||
      g.extent[1] != a.positions || g.extent[2] != a.channels) {
    return false;
  }
  // Of (blocks of all images, positions, channels of a block); padding is left out.
  const int64_t lanes = a.blocks() * a.block;
  const Scratch<T> padded(allocator, a.n * lanes);
  reduce_as<Sum>(allocator,
                 {.rank = 3,
                  .extent = {a.n * a.blocks(), a.positions, a.block},
                  .reduced = {false, true, false}},
                 Elements<T>{static_cast<const T*>(form->data())}, padded.data(),
                 op == ReduceOp::mean ? 1 / static_cast<double>(a.positions) : 1);
  T* to = static_cast<T*>(y.raw());
  for (int64_t n = 0; n < a.n; ++n) {
    std::copy_n(padded.data() + n * lanes, a.channels, to + n * a.channels);
  }
  return true;
}

class Reduction final : public ReductionKernels, CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  void reduce(ReduceOp op, const ReduceGeometry& g, const Tensor& x, const Tensor& y) override {
    visit_element("reduce", x.dtype(), [&]<class T>() {
      if (reduce_positions<T>(allocator_, op, g, x, y)) return;
      const Elements<T> from{static_cast<const T*>(x.raw())};
      T* to = static_cast<T*>(y.raw());
      switch (op) {
        case ReduceOp::sum:
          return reduce_as<Sum>(allocator_, g, from, to, 1);
        case ReduceOp::mean:
          return reduce_as<Sum>(allocator_, g, from, to, 1.0 / static_cast<double>(g.reduce_count));
        case ReduceOp::max:
          return reduce_as<Extreme<true>>(allocator_, g, from, to, 1);
        case ReduceOp::min:
          return reduce_as<Extreme<false>>(allocator_, g, from, to, 1);
      }
    });
  }

  void sum_products(const ReduceGeometry& g, const Tensor& a, const Tensor& b,
                    const Tensor& y) override {
    visit_element("sum_products_to", a.dtype(), [&]<class T>() {
      const Products<T> from{static_cast<const T*>(a.raw()), static_cast<const T*>(b.raw())};
      reduce_as<Sum>(allocator_, g, from, static_cast<T*>(y.raw()), 1);
    });
  }

  void argmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override {
    ViaF32 t(device_.backend, "argmax", x);
    const float* from = f32(t.in(x));
    int64_t* to = static_cast<int64_t*>(y.raw());
    for (int64_t o = 0; o < g.outer; ++o) {
      for (int64_t i = 0; i < g.inner; ++i) {
        const float* row = from + o * g.classes * g.inner + i;
        int64_t best = 0;
        for (int64_t c = 1; c < g.classes; ++c) {
          const float value = row[c * g.inner];
          const float largest = row[best * g.inner];
          if (value > largest || (std::isnan(value) && !std::isnan(largest))) best = c;
        }
        to[o * g.inner + i] = best;
      }
    }
  }
};

}  // namespace

std::shared_ptr<ReductionKernels> make_reduction(CpuDevice& device) {
  return std::make_shared<Reduction>(device);
}

}  // namespace whisker::cpu
