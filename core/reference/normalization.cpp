// Batch normalisation (Ioffe and Szegedy 2015, section 3 for both passes), layer normalisation
// (Ba, Kiros and Hinton 2016) and group normalisation (Wu and He 2018). All are one formula over a
// set of values v with gradient d:
//   normalised = (v - mean) / sqrt(variance + epsilon)
//   dv = (d - mean(d) - normalised mean(d normalised)) / sqrt(variance + epsilon)
#include "core/backend/normalization.h"
#include "core/backend/unsummed_grads.h"
#include "core/reference/activation_functions.h"
#include "core/reference/loops.h"
#include "core/reference/reference_kernels.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace whisker::reference {
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

/// Calls fn(index in x, channel) for the elements of set `s`, which counts examples and groups.
template <class Fn>
void for_each_of_group(const GroupNormGeometry& g, int64_t s, Fn&& fn) {
  const int64_t first = s % g.groups * g.per_group();
  for (int64_t position = 0; position < g.positions; ++position) {
    for (int64_t c = first; c < first + g.per_group(); ++c) {
      fn((s / g.groups * g.positions + position) * g.channels + c, c);
    }
  }
}

class Normalization final : public NormalizationKernels {
 public:
  void batch_norm_train(const BatchNormGeometry& g, const NormInputs& in, const NormOutputs& out,
                        const RunningStatistics& running) override {
    visit_real("batch_norm", in.x.dtype(), [&]<class T>() {
      const T* from = elements<T>(in.x);          // (rows, channels)
      const T* added = elements<T>(in.residual);  // (rows, channels) or null
      T* to = elements<T>(out.y);                 // (rows, channels)
      for (int64_t c = 0; c < g.channels; ++c) {
        const Moments m = moments_of(from + c, g.rows, g.channels);
        const double inverse = 1 / std::sqrt(m.squares / static_cast<double>(g.rows) + g.epsilon);
        const double scale = elements<T>(in.gamma)[c];  // gamma, beta: (channels)
        const double shift = elements<T>(in.beta)[c];
        for (int64_t r = 0; r < g.rows; ++r) {
          const int64_t at = r * g.channels + c;
          const double z = (double{from[at]} - m.mean) * inverse * scale + shift;
          to[at] = convert<T>(activate(g.activation, z + (added ? double{added[at]} : 0)));
        }
        elements<T>(out.mean)[c] = convert<T>(m.mean);  // mean, inv_std: (channels)
        elements<T>(out.inv_std)[c] = convert<T>(inverse);
        if (!running.mean.defined()) continue;
        const double variance = m.squares / static_cast<double>(std::max<int64_t>(g.rows - 1, 1));
        const auto average = [&](const Tensor& before, double batch, const Tensor& after) {
          elements<T>(after)[c] = convert<T>(
              (1 - running.momentum) * double{elements<T>(before)[c]} + running.momentum * batch);
        };
        average(running.mean, m.mean, running.pending_mean);
        average(running.variance, variance, running.pending_variance);
      }
    });
  }

  void batch_norm_inference(const BatchNormGeometry& g, const NormInputs& in,
                            const KnownStatistics& statistics, const Tensor& y) override {
    visit_real("batch_norm", in.x.dtype(), [&]<class T>() {
      const T* from = elements<T>(in.x);          // (rows, channels)
      const T* added = elements<T>(in.residual);  // (rows, channels) or null
      T* to = elements<T>(y);                     // (rows, channels)
      for (int64_t c = 0; c < g.channels; ++c) {
        const double inverse =
            1 / std::sqrt(double{elements<T>(statistics.variance)[c]} + g.epsilon);
        const double scale = double{elements<T>(in.gamma)[c]} * inverse;
        for (int64_t r = 0; r < g.rows; ++r) {
          const int64_t at = r * g.channels + c;
          const double z = (double{from[at]} - double{elements<T>(statistics.mean)[c]}) * scale +
                           double{elements<T>(in.beta)[c]};
          to[at] = convert<T>(activate(g.activation, z + (added ? double{added[at]} : 0)));
        }
      }
    });
  }

  void batch_norm_backward(const BatchNormGeometry& g, const NormSaved& saved,
                           const UnsummedGrads& dy, const NormGrads& out) override {
    visit_real("batch_norm", dy.first.dtype(), [&]<class T>() {
      const T* from = elements<T>(saved.x);  // (rows, channels), null when only dbeta is wanted
      const T* y = elements<T>(saved.y);     // (rows, channels), null where f' follows from x
      const T* gradient = elements<T>(dy.first);  // (rows, channels)
      for (int64_t c = 0; c < g.channels; ++c) {
        const double center = from ? double{elements<T>(saved.mean)[c]} : 0;
        const double inverse = from ? double{elements<T>(saved.inv_std)[c]} : 0;
        const auto normalised = [&](int64_t at) { return (double{from[at]} - center) * inverse; };
        const auto dz = [&](int64_t at) {
          const double d{gradient[at]};
          if (y) return activation_gradient(g.activation, double{y[at]}, d);
          if (grad_from_output(g.activation.kind)) return d;
          const double z = normalised(at) * double{elements<T>(saved.gamma)[c]} +
                           double{elements<T>(saved.beta)[c]};
          return activation_gradient(g.activation, z, d);
        };
        double sum = 0;          // of dz: dbeta
        double correlation = 0;  // of dz with the normalised x: dgamma
        for (int64_t at = c; at < g.rows * g.channels; at += g.channels) {
          sum += dz(at);
          if (from) correlation += dz(at) * normalised(at);
          if (out.dresidual.defined()) elements<T>(out.dresidual)[at] = convert<T>(dz(at));
        }
        if (out.dbeta.defined()) elements<T>(out.dbeta)[c] = convert<T>(sum);
        if (out.dgamma.defined()) elements<T>(out.dgamma)[c] = convert<T>(correlation);
        if (!out.dx.defined()) continue;
        const double scale = double{elements<T>(saved.gamma)[c]} * inverse;
        for (int64_t at = c; at < g.rows * g.channels; at += g.channels) {
          const double through_statistics = sum + normalised(at) * correlation;
          const double d =
              g.training ? dz(at) - through_statistics / static_cast<double>(g.rows) : dz(at);
          elements<T>(out.dx)[at] = convert<T>(scale * d);
        }
      }
    });
  }

  void layer_norm(const LayerNormGeometry& g, const NormInputs& in,
                  const NormOutputs& out) override {
    visit_real("layer_norm", in.x.dtype(), [&]<class T>() {
      for (int64_t r = 0; r < g.rows; ++r) {
        const T* row = elements<T>(in.x) + r * g.features;  // (features)
        T* to = elements<T>(out.y) + r * g.features;        // (features)
        const Moments m = moments_of(row, g.features, 1);
        const double inverse =
            1 / std::sqrt(m.squares / static_cast<double>(g.features) + g.epsilon);
        for (int64_t f = 0; f < g.features; ++f) {
          const double normalised = (double{row[f]} - m.mean) * inverse;
          to[f] = convert<T>(normalised * double{elements<T>(in.gamma)[f]} +
                             double{elements<T>(in.beta)[f]});  // gamma, beta: (features)
        }
        elements<T>(out.mean)[r] = convert<T>(m.mean);  // mean, inv_std: (rows)
        elements<T>(out.inv_std)[r] = convert<T>(inverse);
      }
    });
  }

  void layer_norm_backward(const LayerNormGeometry& g, const NormSaved& saved, const Tensor& dy,
                           const NormGrads& out) override {
    visit_real("layer_norm", dy.dtype(), [&]<class T>() {
      const T* from = elements<T>(saved.x);  // (rows, features), null when only dbeta is wanted
      const T* gradient = elements<T>(dy);   // (rows, features)
      const auto normalised = [&](int64_t r, int64_t f) {
        return (double{from[r * g.features + f]} - double{elements<T>(saved.mean)[r]}) *
               double{elements<T>(saved.inv_std)[r]};
      };
      if (out.dx.defined()) {
        const auto features = static_cast<double>(g.features);
        const auto d = [&](int64_t r, int64_t f) {
          return double{gradient[r * g.features + f]} * double{elements<T>(saved.gamma)[f]};
        };
        for (int64_t r = 0; r < g.rows; ++r) {
          double sum = 0;
          double correlation = 0;
          for (int64_t f = 0; f < g.features; ++f) {
            sum += d(r, f);
            correlation += d(r, f) * normalised(r, f);
          }
          for (int64_t f = 0; f < g.features; ++f) {
            elements<T>(out.dx)[r * g.features + f] =
                convert<T>((d(r, f) - (sum + normalised(r, f) * correlation) / features) *
                           double{elements<T>(saved.inv_std)[r]});
          }
        }
      }
      for (int64_t f = 0; f < g.features; ++f) {
        double sum = 0;
        double correlation = 0;
        for (int64_t r = 0; r < g.rows; ++r) {
          sum += double{gradient[r * g.features + f]};
          if (from) correlation += double{gradient[r * g.features + f]} * normalised(r, f);
        }
        if (out.dbeta.defined()) elements<T>(out.dbeta)[f] = convert<T>(sum);
        if (out.dgamma.defined()) elements<T>(out.dgamma)[f] = convert<T>(correlation);
      }
    });
  }

  void group_norm(const GroupNormGeometry& g, const NormInputs& in,
                  const NormOutputs& out) override {
    visit_real("group_norm", in.x.dtype(), [&]<class T>() {
      const T* from = elements<T>(in.x);  // (n, positions, channels)
      for (int64_t s = 0; s < g.n * g.groups; ++s) {
        double mean = 0;
        for_each_of_group(g, s, [&](int64_t at, int64_t) { mean += double{from[at]}; });
        mean /= static_cast<double>(g.positions * g.per_group());
        double squares = 0;
        for_each_of_group(g, s, [&](int64_t at, int64_t) {
          squares += (double{from[at]} - mean) * (double{from[at]} - mean);
        });
        const double variance = squares / static_cast<double>(g.positions * g.per_group());
        const double inverse = 1 / std::sqrt(variance + g.epsilon);
        for_each_of_group(g, s, [&](int64_t at, int64_t c) {  // gamma, beta: (channels)
          const double normalised = (double{from[at]} - mean) * inverse;
          elements<T>(out.y)[at] = convert<T>(normalised * double{elements<T>(in.gamma)[c]} +
                                              double{elements<T>(in.beta)[c]});
        });
        elements<T>(out.mean)[s] = convert<T>(mean);  // mean, inv_std: (n, groups)
        elements<T>(out.inv_std)[s] = convert<T>(inverse);
      }
    });
  }

  void group_norm_backward(const GroupNormGeometry& g, const NormSaved& saved, const Tensor& dy,
                           const NormGrads& out) override {
    visit_real("group_norm", dy.dtype(), [&]<class T>() {
      const T* from = elements<T>(saved.x);  // (n, positions, channels), null: only dbeta is wanted
      const T* gradient = elements<T>(dy);   // (n, positions, channels)
      std::vector<double> dgamma(static_cast<size_t>(g.channels)), dbeta = dgamma;
      for (int64_t s = 0; s < g.n * g.groups; ++s) {
        const auto normalised = [&](int64_t at) {
          return from ? (double{from[at]} - double{elements<T>(saved.mean)[s]}) *
                            double{elements<T>(saved.inv_std)[s]}
                      : 0;
        };
        for_each_of_group(g, s, [&](int64_t at, int64_t c) {
          dbeta[static_cast<size_t>(c)] += double{gradient[at]};
          dgamma[static_cast<size_t>(c)] += double{gradient[at]} * normalised(at);
        });
        if (!out.dx.defined()) continue;
        const auto d = [&](int64_t at, int64_t c) {
          return double{gradient[at]} * double{elements<T>(saved.gamma)[c]};
        };
        double sum = 0;
        double correlation = 0;
        for_each_of_group(g, s, [&](int64_t at, int64_t c) {
          sum += d(at, c);
          correlation += d(at, c) * normalised(at);
        });
        const auto values = static_cast<double>(g.positions * g.per_group());
        for_each_of_group(g, s, [&](int64_t at, int64_t c) {
          elements<T>(out.dx)[at] =
              convert<T>((d(at, c) - (sum + normalised(at) * correlation) / values) *
                         double{elements<T>(saved.inv_std)[s]});
        });
      }
      for (int64_t c = 0; c < g.channels; ++c) {
        const auto i = static_cast<size_t>(c);
        if (out.dbeta.defined()) elements<T>(out.dbeta)[c] = convert<T>(dbeta[i]);
        if (out.dgamma.defined()) elements<T>(out.dgamma)[c] = convert<T>(dgamma[i]);
      }
    });
  }
};

}  // namespace

std::shared_ptr<NormalizationKernels> make_normalization() {
  return std::make_shared<Normalization>();
}

}  // namespace whisker::reference
