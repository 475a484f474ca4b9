// Pointwise operators on every dtype: fill, cast, compare and where.
#include "core/cpu/elementwise.h"
#include "core/cpu/layout/blocked_layout.h"
#include "core/cpu/support/broadcast.h"
#include "core/cpu/support/element.h"
#include "core/cpu/support/parallel.h"
#include "core/tensor/convert.h"
#include "core/vectorize.h"

#include <type_traits>

namespace whisker::cpu {
namespace {

/// A value as the type it is compared in.
template <class T>
auto widen(T value) {
  if constexpr (is_half<T>) {
    return static_cast<float>(value);
  } else {
    return value;
  }
}

template <class From, class To>
WHISKER_VECTORIZE void cast_range(const From* x, To* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<To, bf16_t>) {
      store(y[i], convert<float>(x[i]));
    } else {
      y[i] = convert<To>(x[i]);
    }
  }
}

template <class From, class To>
void cast_all(const From* x, To* y, int64_t count) {
  parallel_ranges(count, pointwise_grain, [&](int64_t begin, int64_t end, int) {
    cast_range(x + begin, y + begin, end - begin);
  });
}

template <class T>
WHISKER_VECTORIZE void fill_range(T value, T* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = value;
}

template <class T>
bool holds(CompareOp op, T a, T b) {
  switch (op) {
    case CompareOp::equal:
      return a == b;
    case CompareOp::not_equal:
      return a != b;
    case CompareOp::less:
      return a < b;
    case CompareOp::less_equal:
      return a <= b;
    case CompareOp::greater:
      return a > b;
    case CompareOp::greater_equal:
      return a >= b;
  }
  return false;
}

template <class T>
void select_range(const bool* condition, const T* a, const T* b, T* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = condition[i] ? a[i] : b[i];
}

}  // namespace

void Elementwise::fill(double value, const Tensor& y) {
  visit(y.dtype(), [&]<class T>() {
    T* to = static_cast<T*>(y.raw());
    const T element = convert<T>(value);
    parallel_ranges(y.count(), pointwise_grain, [&](int64_t begin, int64_t end, int) {
      fill_range(element, to + begin, end - begin);
    });
  });
}

void Elementwise::cast(const Tensor& x, const Tensor& y) {
  // Blocked images stay blocked: zero stays zero.
  const BlockedForm* form = may_be_private(y) ? blocked_form(x) : nullptr;
  visit(x.dtype(), [&]<class From>() {
    visit(y.dtype(), [&]<class To>() {
      if (form) {
        const ImageLayout a = form->layout();
        LayoutOutput out(allocator_, y, a);
        cast_all(static_cast<const From*>(form->data()), out.data<To>(), a.count());
        return out.finish();
      }
      cast_all(static_cast<const From*>(x.raw()), static_cast<To*>(y.raw()), y.count());
    });
  });
}

void Elementwise::compare(CompareOp op, const BroadcastGeometry& g, const BinaryInputs& in,
                          const Tensor& y) {
  bool* to = static_cast<bool*>(y.raw());
  visit(in.a.dtype(), [&]<class T>() {
    const T* u = static_cast<const T*>(in.a.raw());
    const T* v = static_cast<const T*>(in.b.raw());
    for_each_row(g, [&](const BroadcastRow& row) {
      for (int64_t i = 0; i < row.length; ++i) {
        to[row.y + i] =
            holds(op, widen(u[row.a + i * row.a_stride]), widen(v[row.b + i * row.b_stride]));
      }
    });
  });
}

void Elementwise::where(const Tensor& condition, const Tensor& a, const Tensor& b,
                        const Tensor& y) {
  const bool* choose = static_cast<const bool*>(condition.raw());
  visit(y.dtype(), [&]<class T>() {
    const T* u = static_cast<const T*>(a.raw());
    const T* v = static_cast<const T*>(b.raw());
    T* to = static_cast<T*>(y.raw());
    parallel_ranges(y.count(), pointwise_grain, [&](int64_t begin, int64_t end, int) {
      select_range(choose + begin, u + begin, v + begin, to + begin, end - begin);
    });
  });
}

}  // namespace whisker::cpu
