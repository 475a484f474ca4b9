// Matrix products: y[i,j] = sum over k of a[i,k] b[k,j], and the fully connected layer made of one.
// Gradients: Goodfellow, Bengio and Courville, "Deep Learning", section 6.5.
#include "core/backend/gemm.h"
#include "core/reference/activation_functions.h"
#include "core/reference/loops.h"
#include "core/reference/reference_kernels.h"

#include <vector>

namespace whisker::reference {
namespace {

class Gemm final : public GemmKernels {
 public:
  void matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b, const Tensor& y) override {
    visit_real("matmul", y.dtype(), [&]<class T>() {
      for (int64_t batch = 0; batch < g.batch; ++batch) {
        const T* left = elements<T>(a) + batch * g.a_batch_stride;   // (m,k), or (k,m) transposed
        const T* right = elements<T>(b) + batch * g.b_batch_stride;  // (k,n), or (n,k) transposed
        T* out = elements<T>(y) + batch * g.m * g.n;                 // (m,n)
        for (int64_t i = 0; i < g.m; ++i) {
          for (int64_t j = 0; j < g.n; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < g.k; ++k) {
              const double left_ik = g.transpose_a ? left[k * g.m + i] : left[i * g.k + k];
              const double right_kj = g.transpose_b ? right[j * g.k + k] : right[k * g.n + j];
              sum += left_ik * right_kj;
            }
            out[i * g.n + j] = convert<T>(sum);
          }
        }
      }
    });
  }

  void linear(const LinearGeometry& g, const AffineInputs& in, const Tensor& y) override {
    visit_real("linear", y.dtype(), [&]<class T>() {
      const T* values = elements<T>(in.x);  // (rows, in)
      const T* weight = elements<T>(in.w);  // (out, in)
      const T* bias = elements<T>(in.b);    // (out) or null
      T* result = elements<T>(y);           // (rows, out)
      for (int64_t r = 0; r < g.rows; ++r) {
        for (int64_t o = 0; o < g.out; ++o) {
          double z = g.bias ? double{bias[o]} : 0;
          for (int64_t i = 0; i < g.in; ++i) {
            z += double{values[r * g.in + i]} * double{weight[o * g.in + i]};
          }
          result[r * g.out + o] = convert<T>(activate(g.activation, z));
        }
      }
    });
  }

  void linear_backward(const LinearGeometry& g, const AffineSaved& saved, const Tensor& dy,
                       const AffineGrads& out) override {
    visit_real("linear", dy.dtype(), [&]<class T>() {
      const T* values = elements<T>(saved.x);  // (rows, in)
      const T* weight = elements<T>(saved.w);  // (out, in)
      const T* result = elements<T>(saved.y);  // (rows, out), null without an activation
      const T* gradient = elements<T>(dy);     // (rows, out)

      // dz = f'(z) dy
      std::vector<double> dz(static_cast<size_t>(g.rows * g.out));
      for (size_t i = 0; i < dz.size(); ++i) {
        const double d{gradient[i]};
        dz[i] = result ? activation_gradient(g.activation, double{result[i]}, d) : d;
      }
      const auto dz_at = [&](int64_t r, int64_t o) {
        return dz[static_cast<size_t>(r * g.out + o)];
      };

      if (out.dx.defined()) {                // dx = dz w
        T* gradients = elements<T>(out.dx);  // (rows, in)
        for (int64_t r = 0; r < g.rows; ++r) {
          for (int64_t i = 0; i < g.in; ++i) {
            double sum = 0;
            for (int64_t o = 0; o < g.out; ++o) sum += dz_at(r, o) * double{weight[o * g.in + i]};
            gradients[r * g.in + i] = convert<T>(sum);
          }
        }
      }
      if (out.dw.defined()) {                // dw = dz^T x
        T* gradients = elements<T>(out.dw);  // (out, in)
        for (int64_t o = 0; o < g.out; ++o) {
          for (int64_t i = 0; i < g.in; ++i) {
            double sum = 0;
            for (int64_t r = 0; r < g.rows; ++r) sum += dz_at(r, o) * double{values[r * g.in + i]};
            gradients[o * g.in + i] = convert<T>(sum);
          }
        }
      }
      if (out.db.defined()) {                // db = sum over rows of dz
        T* gradients = elements<T>(out.db);  // (out)
        for (int64_t o = 0; o < g.out; ++o) {
          double sum = 0;
          for (int64_t r = 0; r < g.rows; ++r) sum += dz_at(r, o);
          gradients[o] = convert<T>(sum);
        }
      }
    });
  }
};

}  // namespace

std::shared_ptr<GemmKernels> make_gemm() {
  return std::make_shared<Gemm>();
}

}  // namespace whisker::reference
