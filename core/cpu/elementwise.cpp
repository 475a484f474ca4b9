// Pointwise operators: contiguous vector loops, and an outer walk where operands broadcast. Fill,
// cast, compare and where take every dtype, the others f32 and bf16.
#include "core/backend/elementwise.h"

#include "core/cpu/cpu_kernels.h"
#include "core/cpu/layout/blocked_layout.h"
#include "core/cpu/support/activations.h"
#include "core/cpu/support/element.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/pointwise.h"
#include "core/cpu/support/strided_rows.h"
#include "core/tensor/convert.h"
#include "core/vectorize.h"

#include <algorithm>
#include <initializer_list>
#include <type_traits>

namespace whisker::cpu {
namespace {

template <class T>
T* elements(const Tensor& x) {
  return static_cast<T*>(x.raw());
}

/// x as one row of elements.
ImageLayout whole(const Tensor& x) {
  return {.n = 1, .positions = x.count(), .channels = 1};
}

/// The layout of a loop over whole tensors of one shape: the private form that all operands
/// share, else row-major. `zero_stays`: f(0...) = 0, so that padding channels stay zero.
ImageLayout common_layout(bool zero_stays, std::initializer_list<const Tensor*> operands) {
  const ImageLayout plain = whole(**operands.begin());
  const BlockedForm* form = blocked_form(**operands.begin());
  if (!form) return plain;
  const ImageLayout& a = form->layout();
  if (!zero_stays && a.channels % a.block != 0) return plain;
  for (const Tensor* operand : operands) {
    const BlockedForm* other = blocked_form(*operand);
    if (!other || !(other->layout() == a)) return plain;
  }
  return a;
}

/// y = f(x...) of whole tensors of one shape.
template <class T, class F, class... X>
void map_tensors(Allocator& allocator, bool zero_stays, F f, const Tensor& y, const X&... x) {
  const ImageLayout a = common_layout(zero_stays, {&x...});
  if (a.layout == Layout::plain) return each(f, elements<T>(y), y.count(), elements<T>(x)...);
  const auto in_layout = [&](const auto&... in) {
    LayoutOutput out(allocator, y, a);
    each(f, out.data<T>(), a.count(), in.template data<T>()...);
    out.finish();
  };
  in_layout(LayoutInput(allocator, x, a)...);
}

template <class T, class F>
void broadcast_each(Allocator& allocator, bool zero_stays, F f, const BroadcastGeometry& g,
                    const Tensor& left, const Tensor& right, const Tensor& result) {
  if (g.same_shape()) return map_tensors<T>(allocator, zero_stays, f, result, left, right);
  const T *a = elements<T>(left), *b = elements<T>(right);
  T* y = elements<T>(result);
  for_each_row(g, [&](const BroadcastRow& row) {
    const T *u = a + row.a, *v = b + row.b;
    T* to = y + row.y;
    if (row.a_stride == 1 && row.b_stride == 1) {
      map(f, to, row.length, u, v);
    } else if (row.a_stride == 1) {
      map([f, q = load(*v)](float p) { return f(p, q); }, to, row.length, u);
    } else if (row.b_stride == 1) {
      map([f, p = load(*u)](float q) { return f(p, q); }, to, row.length, v);
    } else {
      T value;
      store(value, f(load(*u), load(*v)));
      std::fill_n(to, row.length, value);
    }
  });
}

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

template <class T>
WHISKER_VECTORIZE void fill_range(T value, T* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = value;
}

template <class T>
WHISKER_VECTORIZE void select_range(const bool* is_a, const T* a, const T* b, T* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = is_a[i] ? a[i] : b[i];
}

class Elementwise final : public ElementwiseKernels, CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  void fill(double value, const Tensor& y) override {
    visit(y.dtype(), [&]<class T>() {
      T* to = elements<T>(y);
      const T element = convert<T>(value);
      parallel_ranges(y.count(), pointwise_grain, [&](int64_t begin, int64_t end, int) {
        fill_range(element, to + begin, end - begin);
      });
    });
  }

  void cast(const Tensor& x, const Tensor& y) override {
    // Blocked images stay blocked: zero stays zero.
    const BlockedForm* form = may_be_private(y) ? blocked_form(x) : nullptr;
    const ImageLayout a = form ? form->layout() : whole(y);
    const LayoutInput in(allocator_, x, a);
    LayoutOutput out(allocator_, y, a);
    visit(x.dtype(), [&]<class From>() {
      visit(y.dtype(), [&]<class To>() {
        parallel_ranges(a.count(), pointwise_grain, [&](int64_t begin, int64_t end, int) {
          cast_range(in.data<From>() + begin, out.data<To>() + begin, end - begin);
        });
      });
    });
    out.finish();
  }

  void compare(CompareOp op, const BroadcastGeometry& g, const BinaryInputs& in,
               const Tensor& y) override {
    bool* to = static_cast<bool*>(y.raw());
    visit(in.a.dtype(), [&]<class T>() {
      const T *u = elements<T>(in.a), *v = elements<T>(in.b);
      for_each_row(g, [&](const BroadcastRow& row) {
        for (int64_t i = 0; i < row.length; ++i) {
          to[row.y + i] =
              compares(op, widen(u[row.a + i * row.a_stride]), widen(v[row.b + i * row.b_stride]));
        }
      });
    });
  }

  void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y) override {
    const bool* choose = static_cast<const bool*>(condition.raw());
    visit(y.dtype(), [&]<class T>() {
      const T *u = elements<T>(a), *v = elements<T>(b);
      T* to = elements<T>(y);
      parallel_ranges(y.count(), pointwise_grain, [&](int64_t begin, int64_t end, int) {
        select_range(choose + begin, u + begin, v + begin, to + begin, end - begin);
      });
    });
  }

  void unary(const UnarySpec& spec, const Tensor& x, const Tensor& y) override {
    const auto a = static_cast<float>(spec.a), b = static_cast<float>(spec.b);
    const auto run = [&](bool zero_stays, auto f) {
      visit_element("unary", y.dtype(),
                    [&]<class T>() { map_tensors<T>(allocator_, zero_stays, f, y, x); });
    };
    switch (spec.op) {
      case UnaryOp::neg:
        return run(true, [](float v) { return -v; });
      case UnaryOp::exp:
        return run(false, [](float v) { return vector_exp(v); });
      case UnaryOp::log:
        return run(false, [](float v) { return std::log(v); });
      case UnaryOp::sqrt:
        return run(true, [](float v) { return std::sqrt(v); });
      case UnaryOp::reciprocal:
        return run(false, [](float v) { return 1.0f / v; });
      case UnaryOp::abs:
        return run(true, [](float v) { return std::abs(v); });
      case UnaryOp::sign:
        return run(true, [](float v) { return v > 0 ? 1.0f : v < 0 ? -1.0f : v; });
      case UnaryOp::pow:
        if (spec.a == 2) return run(true, [](float v) { return v * v; });
        if (spec.a == 3) return run(true, [](float v) { return v * v * v; });
        return run(false, [a](float v) { return std::pow(v, a); });
      case UnaryOp::clamp:
        return run(false, [a, b](float v) { return v < a ? a : v > b ? b : v; });
      case UnaryOp::inside:
        return run(false, [a, b](float v) { return v >= a && v <= b ? 1.0f : 0.0f; });
      case UnaryOp::affine:
        return run(spec.b == 0, [a, b](float v) { return a * v + b; });
    }
  }

  void binary(BinaryOp op, const BroadcastGeometry& g, const BinaryInputs& in,
              const Tensor& y) override {
    const auto run = [&](bool zero_stays, auto f) {
      visit_element("binary", y.dtype(), [&]<class T>() {
        broadcast_each<T>(allocator_, zero_stays, f, g, in.a, in.b, y);
      });
    };
    switch (op) {
      case BinaryOp::add:
        return run(true, [](float p, float q) { return p + q; });
      case BinaryOp::sub:
        return run(true, [](float p, float q) { return p - q; });
      case BinaryOp::mul:
        return run(true, [](float p, float q) { return p * q; });
      case BinaryOp::div:
        return run(false, [](float p, float q) { return p / q; });
      case BinaryOp::maximum:
        // A NaN on either side must be seen.
        return run(true, [](float p, float q) { return p >= q || p != p ? p : q; });
      case BinaryOp::minimum:
        return run(true, [](float p, float q) { return p <= q || p != p ? p : q; });
    }
  }

  void accumulate(const Tensor& term, const Tensor& sum) override {
    visit_element("accumulate", sum.dtype(), [&]<class T>() {
      const auto add = [](float p, float q) { return p + q; };
      map_tensors<T>(allocator_, true, add, sum, sum, term);
    });
  }

  void activation(ActivationSpec f, const Tensor& x, const Tensor& y) override {
    visit_element("activation", y.dtype(), [&]<class T>() {
      visit_activation(f.kind, [&]<class F>() {
        const auto value = [slope = f.slope](float v) { return F::value(v, slope); };
        map_tensors<T>(allocator_, keeps_zero(f.kind), value, y, x);
      });
    });
  }

  void activation_backward(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                           const Tensor& dx) override {
    visit_element("activation", dx.dtype(), [&]<class T>() {
      visit_activation(f.kind, [&]<class F>() {
        const auto times_dy = [slope = f.slope](float s, float d) {
          return gradient<F>(s, slope, d);
        };
        map_tensors<T>(allocator_, true, times_dy, dx, saved, dy);
      });
    });
  }

  void activation_second(ActivationSpec f, const ActivationSecondInputs& in,
                         const Tensor& out) override {
    visit_element("activation", out.dtype(), [&]<class T>() {
      visit_activation(f.kind, [&]<class F>() {
        const auto second = [slope = f.slope](float at, float p, float q) {
          return F::second(at, slope) * p * q;
        };
        each(second, elements<T>(out), out.count(), elements<T>(in.saved), elements<T>(in.dy),
             elements<T>(in.v));
      });
    });
  }

  void dropout(double rate, const RandomKey& given, const Tensor& x, const Tensor& y) override {
    const RandomKey key = resolved(given);
    visit_element("dropout", y.dtype(), [&]<class T>() {
      const T* from = elements<T>(x);
      T* to = elements<T>(y);
      parallel_ranges(y.count(), pointwise_grain / 4, [&](int64_t begin, int64_t end, int) {
        drop_elements(key, rate, static_cast<uint64_t>(begin), from + begin, to + begin,
                      end - begin);
      });
    });
  }
};

}  // namespace

std::shared_ptr<ElementwiseKernels> make_elementwise(CpuDevice& device) {
  return std::make_shared<Elementwise>(device);
}

}  // namespace whisker::cpu
