#include "course.h"
using course::View;

template <class T>
void layer_norm_backward(View<const T> dy, View<const T> x, View<const T> gamma, T eps, View<T> dx,
                         View<T> dgamma, View<T> dbeta) {
  const int columns = x.extent(1);
  const T n = static_cast<T>(columns);
  for (int i = 0; i < x.extent(0); ++i) {
    T mean = 0, variance = 0, mean_dz = 0, mean_dz_z = 0;
    for (int j = 0; j < columns; ++j) mean += x(i, j) / n;
    for (int j = 0; j < columns; ++j) variance += (x(i, j) - mean) * (x(i, j) - mean) / n;
    const T deviation = std::sqrt(variance + eps);
    for (int j = 0; j < columns; ++j) {
      const T z = (x(i, j) - mean) / deviation, dz = dy(i, j) * gamma(j);
      dbeta(j) += dy(i, j);
      dgamma(j) += dy(i, j) * z;
      mean_dz += dz / n;
      mean_dz_z += dz * z / n;
    }
    for (int j = 0; j < columns; ++j) {
      const T z = (x(i, j) - mean) / deviation, dz = dy(i, j) * gamma(j);
      dx(i, j) = (dz - mean_dz - z * mean_dz_z) / deviation;
    }
  }
}
