// Pointwise operators: contiguous vector loops, and an outer walk where operands broadcast.
#include "core/cpu/activations.h"
#include "core/cpu/backend_class.h"
#include "core/cpu/broadcast.h"
#include "core/cpu/parallel.h"
#include "core/cpu/vectorize.h"
#include "core/dropout_mask.h"

#include <algorithm>

namespace whisker::cpu {
namespace {

template <class F>
WHISKER_VECTORIZE void map1(F f, const float* x, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = f(x[i]);
}

template <class F>
WHISKER_VECTORIZE void map2(F f, const float* a, const float* b, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = f(a[i], b[i]);
}

template <class F>
WHISKER_VECTORIZE void map3(F f, const float* a, const float* b, const float* c, float* y,
                            int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = f(a[i], b[i], c[i]);
}

template <class F>
void each1(F f, const float* x, float* y, int64_t count) {
  parallel_ranges(count, pointwise_grain, [&](int64_t begin, int64_t end, int) {
    map1(f, x + begin, y + begin, end - begin);
  });
}

template <class F>
void each2(F f, const float* a, const float* b, float* y, int64_t count) {
  parallel_ranges(count, pointwise_grain, [&](int64_t begin, int64_t end, int) {
    map2(f, a + begin, b + begin, y + begin, end - begin);
  });
}

template <class F>
void broadcast_each(F f, const BroadcastGeometry& g, const float* a, const float* b, float* y) {
  if (g.same_shape()) return each2(f, a, b, y, g.count);
  for_each_row(g, [&](const BroadcastRow& row) {
    const float* u = a + row.a;
    const float* v = b + row.b;
    float* to = y + row.y;
    if (row.a_stride == 1 && row.b_stride == 1) {
      map2(f, u, v, to, row.length);
    } else if (row.a_stride == 1) {
      map1([f, right = *v](float left) { return f(left, right); }, u, to, row.length);
    } else if (row.b_stride == 1) {
      map1([f, left = *u](float right) { return f(left, right); }, v, to, row.length);
    } else {
      std::fill_n(to, row.length, f(*u, *v));
    }
  });
}

}  // namespace

void CpuBackend::unary(const UnarySpec& spec, const Tensor& x, const Tensor& y) {
  const float* from = f32(x);
  float* to = f32(y);
  const int64_t count = y.count();
  const auto a = static_cast<float>(spec.a);
  const auto b = static_cast<float>(spec.b);
  switch (spec.op) {
    case UnaryOp::neg:
      return each1([](float v) { return -v; }, from, to, count);
    case UnaryOp::exp:
      return each1([](float v) { return vector_exp(v); }, from, to, count);
    case UnaryOp::log:
      return each1([](float v) { return std::log(v); }, from, to, count);
    case UnaryOp::sqrt:
      return each1([](float v) { return std::sqrt(v); }, from, to, count);
    case UnaryOp::reciprocal:
      return each1([](float v) { return 1.0f / v; }, from, to, count);
    case UnaryOp::abs:
      return each1([](float v) { return std::abs(v); }, from, to, count);
    case UnaryOp::sign:
      return each1([](float v) { return v > 0 ? 1.0f : v < 0 ? -1.0f : v; }, from, to, count);
    case UnaryOp::pow:
      if (spec.a == 2) return each1([](float v) { return v * v; }, from, to, count);
      if (spec.a == 3) return each1([](float v) { return v * v * v; }, from, to, count);
      return each1([a](float v) { return std::pow(v, a); }, from, to, count);
    case UnaryOp::clamp:
      return each1([a, b](float v) { return v < a ? a : v > b ? b : v; }, from, to, count);
    case UnaryOp::inside:
      return each1([a, b](float v) { return v >= a && v <= b ? 1.0f : 0.0f; }, from, to, count);
    case UnaryOp::affine:
      return each1([a, b](float v) { return a * v + b; }, from, to, count);
  }
}

void CpuBackend::binary(BinaryOp op, const BroadcastGeometry& g, const Tensor& a, const Tensor& b,
                        const Tensor& y) {
  const float* u = f32(a);
  const float* v = f32(b);
  float* to = f32(y);
  switch (op) {
    case BinaryOp::add:
      return broadcast_each([](float p, float q) { return p + q; }, g, u, v, to);
    case BinaryOp::sub:
      return broadcast_each([](float p, float q) { return p - q; }, g, u, v, to);
    case BinaryOp::mul:
      return broadcast_each([](float p, float q) { return p * q; }, g, u, v, to);
    case BinaryOp::div:
      return broadcast_each([](float p, float q) { return p / q; }, g, u, v, to);
    case BinaryOp::maximum:
      // The other operand where one is NaN would hide it.
      return broadcast_each([](float p, float q) { return p >= q || p != p ? p : q; }, g, u, v, to);
    case BinaryOp::minimum:
      return broadcast_each([](float p, float q) { return p <= q || p != p ? p : q; }, g, u, v, to);
  }
}

void CpuBackend::accumulate(const Tensor& term, const Tensor& sum) {
  float* to = f32(sum);
  each2([](float p, float q) { return p + q; }, to, f32(term), to, sum.count());
}

void CpuBackend::activation(ActivationSpec f, const Tensor& x, const Tensor& y) {
  visit_activation(f.kind, [&]<class F>() {
    each1([slope = f.slope](float v) { return F::value(v, slope); }, f32(x), f32(y), y.count());
  });
}

void CpuBackend::activation_backward(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                                     const Tensor& dx) {
  visit_activation(f.kind, [&]<class F>() {
    each2([slope = f.slope](float s, float d) { return F::first(s, slope) * d; }, f32(saved),
          f32(dy), f32(dx), dx.count());
  });
}

void CpuBackend::activation_second(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                                   const Tensor& v, const Tensor& out) {
  const float* s = f32(saved);
  const float* d = f32(dy);
  const float* w = f32(v);
  float* to = f32(out);
  visit_activation(f.kind, [&]<class F>() {
    const auto second = [slope = f.slope](float at, float p, float q) {
      return F::second(at, slope) * p * q;
    };
    parallel_ranges(out.count(), pointwise_grain, [&](int64_t begin, int64_t end, int) {
      map3(second, s + begin, d + begin, w + begin, to + begin, end - begin);
    });
  });
}

namespace {

// Whole Philox blocks: four elements each.
WHISKER_VECTORIZE void dropout_blocks(RandomKey key, uint64_t first_block, uint64_t threshold,
                                      float scale, const float* x, float* y, int64_t blocks) {
  for (int64_t block = 0; block < blocks; ++block) {
    const PhiloxBlock words = dropout_words(key, first_block + static_cast<uint64_t>(block));
    for (size_t i = 0; i < 4; ++i) {
      const int64_t at = block * 4 + static_cast<int64_t>(i);
      y[at] = words[i] >= threshold ? x[at] * scale : 0.0f;
    }
  }
}

}  // namespace

void CpuBackend::dropout(double rate, const RandomKey& key, const Tensor& x, const Tensor& y) {
  const float* from = f32(x);
  float* to = f32(y);
  const int64_t count = y.count();
  const uint64_t threshold = dropout_threshold(rate);
  const auto scale = static_cast<float>(1 / (1 - rate));
  parallel_ranges(count / 4, pointwise_grain / 16, [&](int64_t begin, int64_t end, int) {
    dropout_blocks(key, static_cast<uint64_t>(begin), threshold, scale, from + begin * 4,
                   to + begin * 4, end - begin);
  });
  for (int64_t i = count / 4 * 4; i < count; ++i) {
    to[i] = dropout_keeps(key, static_cast<uint64_t>(i), threshold) ? from[i] * scale : 0.0f;
  }
}

}  // namespace whisker::cpu
