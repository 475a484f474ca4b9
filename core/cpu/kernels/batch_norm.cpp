// Each pass reads the memory once. Sums run in f32 over short stretches of rows, then in f64 per
// thread. The block sizes of oneDNN (16 and 8) are compiled in, so that sums stay in registers.
#include "core/cpu/kernels/batch_norm.h"

#include "core/cpu/support/activations.h"
#include "core/cpu/support/element.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/pointwise.h"
#include "core/cpu/support/thread_sums.h"
#include "core/vectorize.h"

#include <algorithm>
#include <type_traits>

namespace whisker::cpu {
namespace {

constexpr int64_t stretch = 64;

int64_t rows_of(const ImageLayout& a) {
  return a.outer() * a.positions;
}

/// Channels of a row: known when compiled (Inner), or `inner`.
template <int Inner>
constexpr int64_t width(int64_t inner) {
  return Inner > 0 ? Inner : inner;
}

/// f32 sums of one stretch: the caller's memory, or registers where the width is known.
template <int Inner>
class Accumulator {
 public:
  explicit Accumulator(float* sums) : sums_(sums) {
    if constexpr (Inner > 0) std::copy_n(sums, Inner, own_);
  }
  void add(int64_t i, float value) {
    if constexpr (Inner > 0) {
      own_[i] += value;
    } else {
      sums_[i] += value;
    }
  }
  void finish() {
    if constexpr (Inner > 0) std::copy_n(own_, Inner, sums_);
  }

 private:
  float* sums_;
  float own_[Inner > 0 ? Inner : 1];
};

template <int Inner, class T>
WHISKER_VECTORIZE void moments_stretch(const T* x, const float* shift, int64_t rows, int64_t inner,
                                       float* sum, float* squares) {
  Accumulator<Inner> first(sum);
  Accumulator<Inner> second(squares);
  for (int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (int64_t i = 0; i < width<Inner>(inner); ++i) {
      const float d = load(x[r * width<Inner>(inner) + i]) - shift[i];
      first.add(i, d);
      second.add(i, d * d);
    }
  }
  first.finish();
  second.finish();
}

template <int Inner, class F, bool Residual, class T>
WHISKER_VECTORIZE void apply_rows(const T* x, const T* residual, const NormFactors& factors,
                                  int64_t rows, int64_t inner, T* y) {
  const auto [mean, scale, beta] = factors;
  for (int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (int64_t i = 0; i < width<Inner>(inner); ++i) {
      const int64_t at = r * width<Inner>(inner) + i;
      float z = (load(x[at]) - mean[i]) * scale[i] + beta[i];
      if constexpr (Residual) z += load(residual[at]);
      store(y[at], F::value(z, 0));
    }
  }
}

template <class F>
constexpr bool from_x = std::is_same_v<F, HardSwish> || std::is_same_v<F, Silu>;
template <class F>
constexpr bool from_y = std::is_same_v<F, Relu> || std::is_same_v<F, Relu6>;

template <int Inner, class F, bool Keep, bool Correlate, class T>
WHISKER_VECTORIZE void backward_stretch(const T* x, const T* y, const T* dy,
                                        const NormFactors& factors, int64_t rows, int64_t inner,
                                        T* dresidual, float* sum, float* correlation) {
  const auto [mean, scale, beta] = factors;
  Accumulator<Inner> first(sum);
  Accumulator<Inner> second(correlation);
  for (int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (int64_t i = 0; i < width<Inner>(inner); ++i) {
      const int64_t at = r * width<Inner>(inner) + i;
      float dz = load(dy[at]);
      if constexpr (from_y<F>) dz = gradient<F>(load(y[at]), 0, dz);
      if constexpr (from_x<F>) {
        dz = gradient<F>((load(x[at]) - mean[i]) * scale[i] + beta[i], 0, dz);
      }
      first.add(i, dz);
      if constexpr (Correlate) second.add(i, dz * (load(x[at]) - mean[i]));
      if constexpr (Keep) store(dresidual[at], dz);
    }
  }
  first.finish();
  second.finish();
}

template <int Inner, class F, bool Slope, class T>
WHISKER_VECTORIZE void backward_rows(const T* x, const T* y, const T* dy,
                                     const NormFactors& factors, const float* offset,
                                     const float* slope, int64_t rows, int64_t inner, T* dx) {
  const auto [mean, scale, beta] = factors;
  for (int64_t r = 0; r < rows; ++r) {
#pragma omp simd
    for (int64_t i = 0; i < width<Inner>(inner); ++i) {
      const int64_t at = r * width<Inner>(inner) + i;
      float dz = load(dy[at]);
      if constexpr (from_y<F>) dz = gradient<F>(load(y[at]), 0, dz);
      if constexpr (from_x<F>) {
        dz = gradient<F>((load(x[at]) - mean[i]) * scale[i] + beta[i], 0, dz);
      }
      float d = scale[i] * dz;
      if constexpr (Slope) d -= offset[i] + slope[i] * (load(x[at]) - mean[i]);
      store(dx[at], d);
    }
  }
}

// Blocks of 8 are those of processors without AVX-512, whose convolutions in bf16 go through f32.
template <class T, class Fn>
void visit_inner(int64_t inner, Fn&& fn) {
  if (inner == 16) return fn.template operator()<16>();
  if constexpr (std::is_same_v<T, float>) {
    if (inner == 8) return fn.template operator()<8>();
  }
  fn.template operator()<0>();
}

/// The activations of batch_norm_computes(); any other is taken for none.
template <class Fn>
void visit_norm_activation(Activation kind, Fn&& fn) {
  visit_activation(kind, [&]<class F>() {
    using Computed = std::conditional_t<from_x<F> || from_y<F>, F, Identity>;
    fn.template operator()<Computed>();
  });
}

/// Rows of all planes, split in equal runs; fn(first row, rows, channel offset, thread) never
/// crosses a plane.
template <class Fn>
void for_each_run(const ImageLayout& a, int64_t longest, Fn&& fn) {
  const int64_t inner = a.inner(), blocks = a.blocks();
  parallel_ranges(rows_of(a), rows_grain(inner), [&](int64_t begin, int64_t end, int thread) {
    for (int64_t row = begin; row < end;) {
      const int64_t plane = row / a.positions;
      const int64_t count = std::min({end - row, (plane + 1) * a.positions - row, longest});
      fn(row, count, plane % blocks * inner, thread);
      row += count;
    }
  });
}

/// Per-thread f64 sums of two quantities per channel, fed from f32 stretches.
class Sums {
 public:
  Sums(Allocator& allocator, const ImageLayout& a)
      : lanes_(a.lanes()),
        inner_(a.inner()),
        totals_(allocator, rows_of(a), rows_grain(inner_), lanes_ * 2),
        parts_(allocator, team_size(rows_of(a), rows_grain(inner_)) * inner_ * 2) {}
  /// Calls fn(first, second): the thread's f32 sums of `inner` channels, zeroed; then adds them to
  /// the f64 sums.
  template <class Fn>
  void stretch_of(int thread, int64_t channel, Fn&& fn) {
    float* first = parts_.data() + thread * inner_ * 2;
    std::fill_n(first, inner_ * 2, 0.0f);
    fn(first, first + inner_);
    double* total = totals_.of(thread) + channel;
    add_to_sums(first, total, inner_);
    add_to_sums(first + inner_, total + lanes_, inner_);
  }
  void finish(double* first, double* second) const {
    for (int64_t i = 0; i < lanes_; ++i) {
      first[i] = totals_.total(i);
      second[i] = totals_.total(lanes_ + i);
    }
  }

 private:
  int64_t lanes_, inner_;
  ThreadSums totals_;
  Scratch<float> parts_;
};

}  // namespace

// The loop for a call is chosen first: for_each_run() is compiled once, not with each of them.

template <class T>
void NormPasses<T>::moments(Allocator& allocator, const ImageLayout& a, const T* x,
                            const float* shift, double* sum, double* squares) {
  Sums sums(allocator, a);
  const int64_t inner = a.inner();
  decltype(&moments_stretch<0, T>) loop = nullptr;
  visit_inner<T>(inner, [&]<int Inner>() { loop = moments_stretch<Inner, T>; });
  for_each_run(a, stretch, [&](int64_t row, int64_t rows, int64_t channel, int thread) {
    sums.stretch_of(thread, channel, [&](float* first, float* second) {
      loop(x + row * inner, shift + channel, rows, inner, first, second);
    });
  });
  sums.finish(sum, squares);
}

template <class T>
void NormPasses<T>::apply(const ImageLayout& a, Activation f, const T* x, const T* residual,
                          const NormFactors& factors, T* y) {
  const int64_t inner = a.inner();
  decltype(&apply_rows<0, Identity, false, T>) loop = nullptr;
  visit_inner<T>(inner, [&]<int Inner>() {
    visit_norm_activation(f, [&]<class F>() {
      visit_bool(residual != nullptr,
                 [&]<bool Residual>() { loop = apply_rows<Inner, F, Residual, T>; });
    });
  });
  for_each_run(a, a.positions, [&](int64_t row, int64_t rows, int64_t channel, int) {
    const int64_t at = row * inner;
    loop(x + at, residual ? residual + at : nullptr, factors.at(channel), rows, inner, y + at);
  });
}

template <class T>
void NormPasses<T>::backward_sums(Allocator& allocator, const ImageLayout& a, Activation f,
                                  const T* x, const T* y, const T* dy, const NormFactors& factors,
                                  T* dresidual, double* sum, double* correlation) {
  Sums sums(allocator, a);
  const int64_t inner = a.inner();
  bool reads_y = false;
  decltype(&backward_stretch<0, Identity, false, false, T>) loop = nullptr;
  visit_inner<T>(inner, [&]<int Inner>() {
    visit_norm_activation(f, [&]<class F>() {
      reads_y = from_y<F>;
      visit_bool(dresidual != nullptr, [&]<bool Keep>() {
        visit_bool(x != nullptr, [&]<bool Correlate>() {
          loop = backward_stretch<Inner, F, Keep, Correlate, T>;
        });
      });
    });
  });
  for_each_run(a, stretch, [&](int64_t row, int64_t rows, int64_t channel, int thread) {
    const int64_t at = row * inner;
    sums.stretch_of(thread, channel, [&](float* first, float* second) {
      loop(x ? x + at : nullptr, reads_y ? y + at : nullptr, dy + at, factors.at(channel), rows,
           inner, dresidual ? dresidual + at : nullptr, first, second);
    });
  });
  sums.finish(sum, correlation);
}

template <class T>
void NormPasses<T>::backward_apply(const ImageLayout& a, Activation f, const T* x, const T* y,
                                   const T* dy, const NormFactors& factors, const float* offset,
                                   const float* slope, T* dx) {
  const int64_t inner = a.inner();
  bool reads_x = slope != nullptr, reads_y = false;
  decltype(&backward_rows<0, Identity, false, T>) loop = nullptr;
  visit_inner<T>(inner, [&]<int Inner>() {
    visit_norm_activation(f, [&]<class F>() {
      reads_x = reads_x || from_x<F>;
      reads_y = from_y<F>;
      visit_bool(slope != nullptr, [&]<bool Slope>() { loop = backward_rows<Inner, F, Slope, T>; });
    });
  });
  for_each_run(a, a.positions, [&](int64_t row, int64_t rows, int64_t channel, int) {
    const int64_t at = row * inner;
    loop(reads_x ? x + at : nullptr, reads_y ? y + at : nullptr, dy + at, factors.at(channel),
         slope ? offset + channel : nullptr, slope ? slope + channel : nullptr, rows, inner,
         dx + at);
  });
}

template struct NormPasses<float>;
template struct NormPasses<bf16_t>;

}  // namespace whisker::cpu
