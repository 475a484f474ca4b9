// Convolution as deep learning means it (cross-correlation; Goodfellow, Bengio and Courville, "Deep
// Learning", section 9.1), with stride, padding, dilation and groups (Dumoulin and Visin 2016).
// All three passes walk the same set of (output, input, filter) triples.
#include "core/backend/convolution.h"
#include "core/reference/activation_functions.h"
#include "core/reference/loops.h"
#include "core/reference/reference_kernels.h"

#include <vector>

namespace whisker::reference {
namespace {

/// Calls fn(position in y, position in x, position in w) for every product that convolution sums.
template <class Fn>
void for_each_gemm(const Conv2dGeometry& g, Fn&& fn) {
  const int64_t group_in = g.c / g.groups;
  const int64_t group_out = g.c_out / g.groups;
  for (int64_t n = 0; n < g.n; ++n) {
    for (int64_t i = 0; i < g.h_out; ++i) {
      for (int64_t j = 0; j < g.w_out; ++j) {
        for (int64_t k = 0; k < g.c_out; ++k) {
          const int64_t out = ((n * g.h_out + i) * g.w_out + j) * g.c_out + k;
          const int64_t first_channel = k / group_out * group_in;
          for (int64_t p = 0; p < g.kernel_h; ++p) {
            const int64_t row = i * g.stride_h - g.pad_top + p * g.dilation_h;
            if (row < 0 || row >= g.h) continue;  // in the padding: a factor of 0
            for (int64_t q = 0; q < g.kernel_w; ++q) {
              const int64_t column = j * g.stride_w - g.pad_left + q * g.dilation_w;
              if (column < 0 || column >= g.w) continue;
              const int64_t in = ((n * g.h + row) * g.w + column) * g.c + first_channel;
              const int64_t filter = ((k * g.kernel_h + p) * g.kernel_w + q) * group_in;
              for (int64_t c = 0; c < group_in; ++c) fn(out, in + c, filter + c);
            }
          }
        }
      }
    }
  }
}

template <class T>
void store(const std::vector<double>& values, T* out) {
  for (const double value : values) *out++ = convert<T>(value);
}

class Convolution final : public ConvolutionKernels {
 public:
  void conv2d(const Conv2dGeometry& g, const AffineInputs& in, const Tensor& y) override {
    visit_real("conv2d", y.dtype(), [&]<class T>() {
      const T* values = elements<T>(in.x);  // (N, H, W, C)
      const T* filter = elements<T>(in.w);  // (c_out, kernel_h, kernel_w, C / groups)
      const T* bias = elements<T>(in.b);    // (c_out) or null
      const T* residual = elements<T>(in.residual);  // as y, or null
      T* result = elements<T>(y);           // (N, h_out, w_out, c_out)
      std::vector<double> z(static_cast<size_t>(y.count()));
      for_each_gemm(g, [&](int64_t at_y, int64_t at_x, int64_t at_w) {
        z[static_cast<size_t>(at_y)] += double{values[at_x]} * double{filter[at_w]};
      });
      for (size_t i = 0; i < z.size(); ++i) {
        if (g.bias) z[i] += double{bias[i % static_cast<size_t>(g.c_out)]};
        if (residual) z[i] += double{residual[i]};
        z[i] = activate(g.activation, z[i]);
      }
      store(z, result);
    });
  }

  void conv2d_backward(const Conv2dGeometry& g, const AffineSaved& saved, const Tensor& dy,
                       const AffineGrads& out) override {
    visit_real("conv2d", dy.dtype(), [&]<class T>() {
      const T* values = elements<T>(saved.x);  // (N, H, W, C), null when dw is not wanted
      const T* filter = elements<T>(saved.w);  // (c_out, kernel_h, kernel_w, C / groups), or null
      const T* result =
          elements<T>(saved.y);             // (N, h_out, w_out, c_out), null without an activation
      const T* gradient = elements<T>(dy);  // (N, h_out, w_out, c_out)

      std::vector<double> dz(static_cast<size_t>(dy.count()));  // f'(z) dy
      for (size_t i = 0; i < dz.size(); ++i) {
        const double d{gradient[i]};
        dz[i] = result ? activation_gradient(g.activation, double{result[i]}, d) : d;
      }
      if (out.dx.defined()) {
        std::vector<double> sum(static_cast<size_t>(out.dx.count()));
        for_each_gemm(g, [&](int64_t at_y, int64_t at_x, int64_t at_w) {
          sum[static_cast<size_t>(at_x)] += dz[static_cast<size_t>(at_y)] * double{filter[at_w]};
        });
        store(sum, elements<T>(out.dx));
      }
      if (out.dw.defined()) {
        std::vector<double> sum(static_cast<size_t>(out.dw.count()));
        for_each_gemm(g, [&](int64_t at_y, int64_t at_x, int64_t at_w) {
          sum[static_cast<size_t>(at_w)] += dz[static_cast<size_t>(at_y)] * double{values[at_x]};
        });
        store(sum, elements<T>(out.dw));
      }
      if (out.db.defined()) {
        std::vector<double> sum(static_cast<size_t>(g.c_out));
        for (size_t i = 0; i < dz.size(); ++i) sum[i % sum.size()] += dz[i];
        store(sum, elements<T>(out.db));
      }
    });
  }
};

}  // namespace

std::shared_ptr<ConvolutionKernels> make_convolution() {
  return std::make_shared<Convolution>();
}

}  // namespace whisker::reference
