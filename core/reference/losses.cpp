// Softmax and the losses, computed without overflow: exponents are taken after the largest logit is
// subtracted (Goodfellow, Bengio and Courville, "Deep Learning", section 4.1).
#include "core/backend/host_label.h"
#include "core/backend/losses.h"
#include "core/reference/activation_functions.h"
#include "core/reference/loops.h"
#include "core/reference/reference_kernels.h"

#include <cmath>
#include <limits>
#include <vector>

namespace whisker::reference {
namespace {

/// log(sum(exp(x))) = largest + log_sum; two numbers, since their sum would be rounded.
struct LogSumExp {
  double largest, log_sum;
  double log_probability(double x) const { return (x - largest) - log_sum; }
};

/// Over `count` values.
template <class T>
LogSumExp log_sum_exp(const T* values, int64_t count, int64_t stride) {
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < count; ++i) {
    const double value = values[i * stride];
    if (value > largest) largest = value;  // with std::fmax g++ 12.2 for ARM fails: GCC bug 108608
  }
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += std::exp(double{values[i * stride]} - largest);
  return {largest, std::log(sum)};
}

class Losses final : public LossKernels {
 public:
  void softmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override {
    visit_real("softmax", x.dtype(), [&]<class T>() {
      for (int64_t o = 0; o < g.outer; ++o) {
        for (int64_t i = 0; i < g.inner; ++i) {
          const int64_t first = o * g.classes * g.inner + i;
          const T* in = elements<T>(x) + first;  // (outer, classes, inner)
          T* out = elements<T>(y) + first;       // (outer, classes, inner)
          const LogSumExp norm = log_sum_exp(in, g.classes, g.inner);
          for (int64_t c = 0; c < g.classes; ++c) {
            const double log_probability = norm.log_probability(double{in[c * g.inner]});
            out[c * g.inner] = convert<T>(g.log ? log_probability : std::exp(log_probability));
          }
        }
      }
    });
  }

  void softmax_backward(const SoftmaxGeometry& g, const Tensor& y, const Tensor& dy,
                        const Tensor& dx) override {
    visit_real("softmax", y.dtype(), [&]<class T>() {
      for (int64_t o = 0; o < g.outer; ++o) {
        for (int64_t i = 0; i < g.inner; ++i) {
          const int64_t first = o * g.classes * g.inner + i;
          const T* out = elements<T>(y) + first;        // (outer, classes, inner)
          const T* gradient = elements<T>(dy) + first;  // (outer, classes, inner)
          T* result = elements<T>(dx) + first;          // (outer, classes, inner)
          double sum = 0;
          for (int64_t c = 0; c < g.classes; ++c) {
            const double d = gradient[c * g.inner];
            sum += g.log ? d : d * double{out[c * g.inner]};
          }
          for (int64_t c = 0; c < g.classes; ++c) {
            const double d = gradient[c * g.inner];
            const double value = out[c * g.inner];
            result[c * g.inner] = convert<T>(g.log ? d - std::exp(value) * sum : value * (d - sum));
          }
        }
      }
    });
  }

  // With t[r,c] the weight that row r gives to class c,
  //   loss = -1/D sum over r, c of t[r,c] log p[r,c],  dlogits[r,c] = (p[r,c] sum_k t[r,k] -
  //   t[r,c]) / D
  // where hard targets give t = w[c] ((1 - s) [c is the label] + s / classes) and D = sum over r of
  // w[label], soft ones t = w[c] ((1 - s) target + s / classes) and D = rows: PyTorch's definition
  // (torch.nn.CrossEntropyLoss), smoothing s after Szegedy et al. 2016, section 7.
  void cross_entropy(const CrossEntropyGeometry& g, const LossInputs& in,
                     const LossOutputs& out) override {
    visit_real("cross_entropy", in.logits.dtype(), [&]<class T>() {
      const T* x = elements<T>(in.logits);                    // (rows, classes)
      const T* class_weights = elements<T>(in.class_weight);  // (classes) or null
      T* gradient = elements<T>(out.dlogits);                 // (rows, classes) or null
      const auto label_of = [&](int64_t r) {  // target: i64 (rows), or T (rows, classes)
        const int64_t label = elements<int64_t>(in.target)[r];
        check_label("cross_entropy", label, g.classes, r);
        return label;
      };
      const auto weight_of = [&](int64_t c) { return g.weighted ? double{class_weights[c]} : 1; };

      auto divisor = static_cast<double>(g.rows);
      if (!g.soft) {
        divisor = 0;
        for (int64_t r = 0; r < g.rows; ++r) divisor += weight_of(label_of(r));
      }
      const double smooth = g.label_smoothing / static_cast<double>(g.classes);
      double total = 0;
      std::vector<double> t(static_cast<size_t>(g.classes));
      for (int64_t r = 0; r < g.rows; ++r) {
        const T* row = x + r * g.classes;
        const LogSumExp norm = log_sum_exp(row, g.classes, 1);
        double t_sum = 0;
        for (int64_t c = 0; c < g.classes; ++c) {
          const double wanted = g.soft ? double{elements<T>(in.target)[r * g.classes + c]}
                                       : static_cast<double>(c == label_of(r));
          double& t_c = t[static_cast<size_t>(c)];
          t_c = weight_of(c) * ((1 - g.label_smoothing) * wanted + smooth);
          t_sum += t_c;
          // A class without weight adds nothing, even where its log probability is -infinity.
          if (t_c != 0) total -= t_c * norm.log_probability(double{row[c]});
        }
        for (int64_t c = 0; gradient && c < g.classes; ++c) {
          const double probability = std::exp(norm.log_probability(double{row[c]}));
          gradient[r * g.classes + c] =
              convert<T>((probability * t_sum - t[static_cast<size_t>(c)]) / divisor);
        }
      }
      elements<T>(out.loss)[0] = convert<T>(total / divisor);
    });
  }

  // -t log s(x) - (1 - t) log(1 - s(x)) = max(x, 0) - x t + log(1 + exp(-|x|)); derivative s(x) -
  // t.
  void binary_cross_entropy(const LossInputs& in, const LossOutputs& out) override {
    visit_real("binary_cross_entropy_with_logits", in.logits.dtype(), [&]<class T>() {
      const T* x = elements<T>(in.logits);       // (count)
      const T* wanted = elements<T>(in.target);  // (count)
      T* gradient = elements<T>(out.dlogits);    // (count) or null
      const auto count = static_cast<double>(in.logits.count());
      double total = 0;
      for (int64_t i = 0; i < in.logits.count(); ++i) {
        const double z = x[i];
        const double t = wanted[i];
        total += (z > 0 ? z : 0) - z * t + std::log1p(std::exp(-std::fabs(z)));
        if (gradient) gradient[i] = convert<T>((sigmoid_of(z) - t) / count);
      }
      elements<T>(out.loss)[0] = convert<T>(total / count);
    });
  }
};

}  // namespace

std::shared_ptr<LossKernels> make_losses() {
  return std::make_shared<Losses>();
}

}  // namespace whisker::reference
