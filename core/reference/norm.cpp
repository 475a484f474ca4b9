// Batch normalisation (Ioffe and Szegedy 2015, section 3 for both passes) and layer normalisation
// (Ba, Kiros and Hinton 2016). Both are one formula over a set of values v with gradient d:
//   normalised = (v - mean) / sqrt(variance + epsilon)
//   dv = (d - mean(d) - normalised mean(d normalised)) / sqrt(variance + epsilon)
#include "core/autograd/autograd.h"
#include "core/reference/activation_functions.h"
#include "core/reference/loops.h"
#include "core/reference/reference_backend.h"

#include <algorithm>
#include <cmath>

namespace whisker {
namespace {

struct Moments {
  double mean = 0;
  double squares = 0;  ///< sum of squared deviations from the mean
};

/// Mean, then deviations from it: two passes, no cancellation.
template <class T>
Moments moments_of(const T* values, int64_t count, int64_t stride) {
  Moments m;
  for (int64_t i = 0; i < count; ++i) m.mean += double{values[i * stride]};
  m.mean /= static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) {
    const double deviation = double{values[i * stride]} - m.mean;
    m.squares += deviation * deviation;
  }
  return m;
}

}  // namespace

void ReferenceBackend::batch_norm_train(const BatchNormGeometry& g, const Tensor& x,
                                        const Tensor& gamma, const Tensor& beta,
                                        const Tensor& residual, const Tensor& y, const Tensor& mean,
                                        const Tensor& inv_std, const RunningStatistics& running) {
  visit_real("batch_norm", x.dtype(), [&]<class T>() {
    const T* in = elements<T>(x);            // (rows, channels)
    const T* added = elements<T>(residual);  // (rows, channels) or null
    T* out = elements<T>(y);                 // (rows, channels)
    for (int64_t c = 0; c < g.channels; ++c) {
      const Moments m = moments_of(in + c, g.rows, g.channels);
      const double inverse = 1 / std::sqrt(m.squares / static_cast<double>(g.rows) + g.epsilon);
      const double scale = elements<T>(gamma)[c];  // gamma, beta: (channels)
      const double shift = elements<T>(beta)[c];
      for (int64_t r = 0; r < g.rows; ++r) {
        const int64_t at = r * g.channels + c;
        const double z = (double{in[at]} - m.mean) * inverse * scale + shift;
        out[at] = convert<T>(activate(g.activation, z + (added ? double{added[at]} : 0)));
      }
      elements<T>(mean)[c] = convert<T>(m.mean);  // mean, inv_std: (channels)
      elements<T>(inv_std)[c] = convert<T>(inverse);
      if (!running.mean.defined()) continue;
      const double variance = m.squares / static_cast<double>(std::max<int64_t>(g.rows - 1, 1));
      const auto average = [&](const Tensor& before, double batch, const Tensor& after) {
        elements<T>(after)[c] = convert<T>((1 - running.momentum) * double{elements<T>(before)[c]} +
                                           running.momentum * batch);
      };
      average(running.mean, m.mean, running.pending_mean);
      average(running.variance, variance, running.pending_variance);
    }
  });
}

void ReferenceBackend::batch_norm_inference(const BatchNormGeometry& g, const Tensor& x,
                                            const Tensor& gamma, const Tensor& beta,
                                            const Tensor& residual, const Tensor& mean,
                                            const Tensor& variance, const Tensor& y) {
  visit_real("batch_norm", x.dtype(), [&]<class T>() {
    const T* in = elements<T>(x);            // (rows, channels)
    const T* added = elements<T>(residual);  // (rows, channels) or null
    T* out = elements<T>(y);                 // (rows, channels)
    for (int64_t c = 0; c < g.channels; ++c) {
      const double inverse = 1 / std::sqrt(double{elements<T>(variance)[c]} + g.epsilon);
      const double scale = double{elements<T>(gamma)[c]} * inverse;
      for (int64_t r = 0; r < g.rows; ++r) {
        const int64_t at = r * g.channels + c;
        const double z =
            (double{in[at]} - double{elements<T>(mean)[c]}) * scale + double{elements<T>(beta)[c]};
        out[at] = convert<T>(activate(g.activation, z + (added ? double{added[at]} : 0)));
      }
    }
  });
}

void ReferenceBackend::batch_norm_backward(const BatchNormGeometry& g, bool batch_statistics,
                                           const Tensor& x, const Tensor& gamma,
                                           const Tensor& /*beta*/, const Tensor& y,
                                           const Tensor& mean, const Tensor& inv_std,
                                           const UnsummedGrads& dy, const Tensor& dx,
                                           const Tensor& dgamma, const Tensor& dbeta,
                                           const Tensor& dresidual) {
  visit_real("batch_norm", dy.first.dtype(), [&]<class T>() {
    const T* in = elements<T>(x);               // (rows, channels), null when only dbeta is wanted
    const T* out = elements<T>(y);              // (rows, channels), null without an activation
    const T* gradient = elements<T>(dy.first);  // (rows, channels)
    for (int64_t c = 0; c < g.channels; ++c) {
      const double center = in ? double{elements<T>(mean)[c]} : 0;
      const double inverse = in ? double{elements<T>(inv_std)[c]} : 0;
      const auto normalised = [&](int64_t at) { return (double{in[at]} - center) * inverse; };
      const auto dz = [&](int64_t at) {
        const double d{gradient[at]};
        return out ? activation_gradient(g.activation, double{out[at]}, d) : d;
      };
      double sum = 0;          // of dz: dbeta
      double correlation = 0;  // of dz with the normalised x: dgamma
      for (int64_t at = c; at < g.rows * g.channels; at += g.channels) {
        sum += dz(at);
        if (in) correlation += dz(at) * normalised(at);
        if (dresidual.defined()) elements<T>(dresidual)[at] = convert<T>(dz(at));
      }
      if (dbeta.defined()) elements<T>(dbeta)[c] = convert<T>(sum);
      if (dgamma.defined()) elements<T>(dgamma)[c] = convert<T>(correlation);
      if (!dx.defined()) continue;
      const double scale = double{elements<T>(gamma)[c]} * inverse;
      for (int64_t at = c; at < g.rows * g.channels; at += g.channels) {
        const double through_statistics = sum + normalised(at) * correlation;
        const double d =
            batch_statistics ? dz(at) - through_statistics / static_cast<double>(g.rows) : dz(at);
        elements<T>(dx)[at] = convert<T>(scale * d);
      }
    }
  });
}

void ReferenceBackend::layer_norm(const LayerNormGeometry& g, const Tensor& x, const Tensor& gamma,
                                  const Tensor& beta, const Tensor& y, const Tensor& mean,
                                  const Tensor& inv_std) {
  visit_real("layer_norm", x.dtype(), [&]<class T>() {
    for (int64_t r = 0; r < g.rows; ++r) {
      const T* row = elements<T>(x) + r * g.features;  // (features)
      T* out = elements<T>(y) + r * g.features;        // (features)
      const Moments m = moments_of(row, g.features, 1);
      const double inverse = 1 / std::sqrt(m.squares / static_cast<double>(g.features) + g.epsilon);
      for (int64_t f = 0; f < g.features; ++f) {
        const double normalised = (double{row[f]} - m.mean) * inverse;
        out[f] = convert<T>(normalised * double{elements<T>(gamma)[f]} +
                            double{elements<T>(beta)[f]});  // gamma, beta: (features)
      }
      elements<T>(mean)[r] = convert<T>(m.mean);  // mean, inv_std: (rows)
      elements<T>(inv_std)[r] = convert<T>(inverse);
    }
  });
}

void ReferenceBackend::layer_norm_backward(const LayerNormGeometry& g, const Tensor& x,
                                           const Tensor& gamma, const Tensor& mean,
                                           const Tensor& inv_std, const Tensor& dy,
                                           const Tensor& dx, const Tensor& dgamma,
                                           const Tensor& dbeta) {
  visit_real("layer_norm", dy.dtype(), [&]<class T>() {
    const T* in = elements<T>(x);         // (rows, features), null when only dbeta is wanted
    const T* gradient = elements<T>(dy);  // (rows, features)
    const auto normalised = [&](int64_t r, int64_t f) {
      return (double{in[r * g.features + f]} - double{elements<T>(mean)[r]}) *
             double{elements<T>(inv_std)[r]};
    };
    if (dx.defined()) {
      const auto features = static_cast<double>(g.features);
      const auto d = [&](int64_t r, int64_t f) {
        return double{gradient[r * g.features + f]} * double{elements<T>(gamma)[f]};
      };
      for (int64_t r = 0; r < g.rows; ++r) {
        double sum = 0;
        double correlation = 0;
        for (int64_t f = 0; f < g.features; ++f) {
          sum += d(r, f);
          correlation += d(r, f) * normalised(r, f);
        }
        for (int64_t f = 0; f < g.features; ++f) {
          elements<T>(dx)[r * g.features + f] =
              convert<T>((d(r, f) - (sum + normalised(r, f) * correlation) / features) *
                         double{elements<T>(inv_std)[r]});
        }
      }
    }
    for (int64_t f = 0; f < g.features; ++f) {
      double sum = 0;
      double correlation = 0;
      for (int64_t r = 0; r < g.rows; ++r) {
        sum += double{gradient[r * g.features + f]};
        if (in) correlation += double{gradient[r * g.features + f]} * normalised(r, f);
      }
      if (dbeta.defined()) elements<T>(dbeta)[f] = convert<T>(sum);
      if (dgamma.defined()) elements<T>(dgamma)[f] = convert<T>(correlation);
    }
  });
}

}  // namespace whisker
