// Pooling over windows (Goodfellow, Bengio and Courville, "Deep Learning", section 9.3).
// Max-pooling keeps, as one i64 per element of y, the argmax of its window as a position in the
// (H,W) plane: the first of equal elements, a NaN before any number, -1 for a window of padding
// only.
#include "core/backend/pooling.h"
#include "core/reference/loops.h"
#include "core/reference/reference_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace whisker::reference {
namespace {

/// The part of one window that lies inside the image, and what an average divides by.
struct Window {
  int64_t row_begin, row_end, column_begin, column_end;
  double divisor;
};

Window window_of(const Pool2dGeometry& g, int64_t i, int64_t j) {
  const int64_t top = i * g.stride_h - g.pad_top;
  const int64_t left = j * g.stride_w - g.pad_left;
  return {.row_begin = std::max<int64_t>(top, 0),
          .row_end = std::min(top + g.kernel_h, g.h),
          .column_begin = std::max<int64_t>(left, 0),
          .column_end = std::min(left + g.kernel_w, g.w),
          .divisor = static_cast<double>(g.divisor(i, j))};
}

/// Calls fn(n, c, window, position in y) for every element of y.
template <class Fn>
void for_each_window(const Pool2dGeometry& g, Fn&& fn) {
  int64_t at = 0;
  for (int64_t n = 0; n < g.n; ++n) {
    for (int64_t i = 0; i < g.h_out; ++i) {
      for (int64_t j = 0; j < g.w_out; ++j) {
        for (int64_t c = 0; c < g.c; ++c) fn(n, c, window_of(g, i, j), at++);
      }
    }
  }
}

/// Calls fn(position within the (H,W) plane) for every image element of a window.
template <class Fn>
void for_each_pixel(const Pool2dGeometry& g, const Window& window, Fn&& fn) {
  for (int64_t row = window.row_begin; row < window.row_end; ++row) {
    for (int64_t column = window.column_begin; column < window.column_end; ++column) {
      fn(row * g.w + column);
    }
  }
}

class Pooling final : public PoolingKernels {
 public:
  int64_t workspace_bytes(const Pool2dGeometry& g) override {
    if (g.kind == PoolKind::average) return 0;
    return g.n * g.h_out * g.w_out * g.c * static_cast<int64_t>(sizeof(int64_t));
  }

  void pool2d(const Pool2dGeometry& g, const Tensor& x, const Tensor& y,
              const Tensor& workspace) override {
    visit_real("pool2d", y.dtype(), [&]<class T>() {
      const T* in = elements<T>(x);                    // (N, H, W, C)
      T* out = elements<T>(y);                         // (N, h_out, w_out, C)
      int64_t* argmax = elements<int64_t>(workspace);  // (N, h_out, w_out, C) or null
      for_each_window(g, [&](int64_t n, int64_t c, const Window& window, int64_t at) {
        const T* plane = in + n * g.h * g.w * g.c + c;  // element p is plane[p * C]
        if (g.kind == PoolKind::average) {
          double sum = 0;
          for_each_pixel(g, window, [&](int64_t p) { sum += double{plane[p * g.c]}; });
          out[at] = convert<T>(window.divisor > 0 ? sum / window.divisor : 0);
          return;
        }
        double best = -std::numeric_limits<double>::infinity();
        int64_t best_at = -1;
        for_each_pixel(g, window, [&](int64_t p) {
          const double value = plane[p * g.c];
          if (best_at < 0 || value > best || (std::isnan(value) && !std::isnan(best))) {
            best = value;
            best_at = p;
          }
        });
        out[at] = convert<T>(best);
        if (argmax) argmax[at] = best_at;
      });
    });
  }

  void pool2d_backward(const Pool2dGeometry& g, const Tensor& workspace, const Tensor& dy,
                       const Tensor& dx) override {
    visit_real("pool2d", dy.dtype(), [&]<class T>() {
      const T* gradient = elements<T>(dy);                       // (N, h_out, w_out, C)
      const int64_t* argmax = elements<int64_t>(workspace);      // (N, h_out, w_out, C), max only
      std::vector<double> sum(static_cast<size_t>(dx.count()));  // (N, H, W, C)
      for_each_window(g, [&](int64_t n, int64_t c, const Window& window, int64_t at) {
        double* plane = sum.data() + n * g.h * g.w * g.c + c;
        const double d = gradient[at];
        if (g.kind == PoolKind::average) {
          for_each_pixel(g, window, [&](int64_t p) { plane[p * g.c] += d / window.divisor; });
        } else if (argmax[at] >= 0) {
          plane[argmax[at] * g.c] += d;
        }
      });
      std::transform(sum.begin(), sum.end(), elements<T>(dx), convert<T, double>);
    });
  }
};

}  // namespace

std::shared_ptr<PoolingKernels> make_pooling() {
  return std::make_shared<Pooling>();
}

}  // namespace whisker::reference
