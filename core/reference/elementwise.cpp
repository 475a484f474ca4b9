// Element by element: y[i] = f(x[i]). Every dtype is computed in double (integers are therefore
// exact up to 2^53) and converted back by core/tensor/convert.h. NaN operands give NaN results.
#include "core/backend/dropout_mask.h"
#include "core/backend/elementwise.h"
#include "core/reference/activation_functions.h"
#include "core/reference/loops.h"
#include "core/reference/reference_kernels.h"

#include <algorithm>
#include <cmath>

namespace whisker::reference {
namespace {

double unary_of(const UnarySpec& spec, double x) {
  switch (spec.op) {
    case UnaryOp::neg:
      return -x;
    case UnaryOp::exp:
      return std::exp(x);
    case UnaryOp::log:
      return std::log(x);
    case UnaryOp::sqrt:
      return std::sqrt(x);
    case UnaryOp::reciprocal:
      return 1 / x;
    case UnaryOp::abs:
      return std::fabs(x);
    case UnaryOp::sign:
      return std::isnan(x) ? x : static_cast<double>((x > 0) - (x < 0));
    case UnaryOp::pow:
      return std::pow(x, spec.a);
    case UnaryOp::clamp:
      return x < spec.a ? spec.a : x > spec.b ? spec.b : x;
    case UnaryOp::inside:
      return x >= spec.a && x <= spec.b ? 1 : 0;
    case UnaryOp::affine:
      return spec.a * x + spec.b;
  }
  return x;
}

double binary_of(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::sub:
      return a - b;
    case BinaryOp::mul:
      return a * b;
    case BinaryOp::div:
      return a / b;
    case BinaryOp::maximum:
      return a >= b || std::isnan(a) ? a : b;
    case BinaryOp::minimum:
      return a <= b || std::isnan(a) ? a : b;
  }
  return a;
}

/// y[i] = f(x[i]...) for tensors of one shape and dtype, f from doubles to double.
template <class Fn, class... Tensors>
void map(Fn&& f, const Tensor& y, const Tensors&... x) {
  visit(y.dtype(), [&]<class T>() {
    T* out = elements<T>(y);
    const int64_t count = y.count();
    for (int64_t i = 0; i < count; ++i) {
      out[i] = convert<T>(f(convert<double>(elements<T>(x)[i])...));
    }
  });
}

class Elementwise final : public ElementwiseKernels {
 public:
  void fill(double value, const Tensor& y) override {
    visit(y.dtype(), [&]<class T>() { std::fill_n(elements<T>(y), y.count(), convert<T>(value)); });
  }

  void cast(const Tensor& x, const Tensor& y) override {
    visit(x.dtype(), [&]<class From>() {
      visit(y.dtype(), [&]<class To>() {
        const From* in = elements<From>(x);
        std::transform(in, in + x.count(), elements<To>(y), convert<To, From>);
      });
    });
  }

  void unary(const UnarySpec& spec, const Tensor& x, const Tensor& y) override {
    map([&](double value) { return unary_of(spec, value); }, y, x);
  }

  void binary(BinaryOp op, const BroadcastGeometry& g, const BinaryInputs& in,
              const Tensor& y) override {
    visit(y.dtype(), [&]<class T>() {
      const T* left = elements<T>(in.a);
      const T* right = elements<T>(in.b);
      T* out = elements<T>(y);  // row-major over g.extent
      for_each_index(g.rank, g.extent, [&](const Extents& index) {
        *out++ =
            convert<T>(binary_of(op, convert<double>(left[position(index, g.a_stride, g.rank)]),
                                 convert<double>(right[position(index, g.b_stride, g.rank)])));
      });
    });
  }

  void accumulate(const Tensor& term, const Tensor& sum) override {
    map([](double so_far, double value) { return so_far + value; }, sum, sum, term);
  }

  void compare(CompareOp op, const BroadcastGeometry& g, const BinaryInputs& in,
               const Tensor& y) override {
    visit(in.a.dtype(), [&]<class T>() {
      using Comparable = std::conditional_t<is_half<T>, float, T>;
      const T* left = elements<T>(in.a);
      const T* right = elements<T>(in.b);
      bool* out = elements<bool>(y);  // row-major over g.extent
      for_each_index(g.rank, g.extent, [&](const Extents& index) {
        *out++ = compares(op, convert<Comparable>(left[position(index, g.a_stride, g.rank)]),
                          convert<Comparable>(right[position(index, g.b_stride, g.rank)]));
      });
    });
  }

  void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y) override {
    visit(y.dtype(), [&]<class T>() {
      const bool* choose_a = elements<bool>(condition);
      for (int64_t i = 0; i < y.count(); ++i) {
        elements<T>(y)[i] = choose_a[i] ? elements<T>(a)[i] : elements<T>(b)[i];
      }
    });
  }

  void activation(ActivationSpec f, const Tensor& x, const Tensor& y) override {
    map([&](double value) { return activate(f, value); }, y, x);
  }

  void activation_backward(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                           const Tensor& dx) override {
    map([&](double kept, double d) { return activation_gradient(f, kept, d); }, dx, saved, dy);
  }

  void activation_second(ActivationSpec f, const ActivationSecondInputs& in,
                         const Tensor& out) override {
    map([&](double kept, double d, double w) { return activation_curvature(f, kept) * d * w; }, out,
        in.saved, in.dy, in.v);
  }

  void dropout(double rate, const RandomKey& given, const Tensor& x, const Tensor& y) override {
    const RandomKey key = resolved(given);
    const uint64_t threshold = dropout_threshold(rate);
    uint64_t element = 0;
    map(
        [&](double value) {
          return dropout_keeps(key, element++, threshold) ? value / (1 - rate) : 0;
        },
        y, x);
  }
};

}  // namespace

std::shared_ptr<ElementwiseKernels> make_elementwise() {
  return std::make_shared<Elementwise>();
}

}  // namespace whisker::reference
