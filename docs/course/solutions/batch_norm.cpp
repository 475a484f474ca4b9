#include "course.h"
using course::View;

template <class T>
void batch_norm_backward(View<const T> dy, View<const T> x, View<const T> gamma, T eps, View<T> dx,
                         View<T> dgamma, View<T> dbeta) {
  const int rows = x.extent(0);
  const T n = static_cast<T>(rows);
  for (int j = 0; j < x.extent(1); ++j) {
    T mean = 0, variance = 0, mean_dz = 0, mean_dz_z = 0;
    for (int i = 0; i < rows; ++i) mean += x(i, j) / n;
    for (int i = 0; i < rows; ++i) variance += (x(i, j) - mean) * (x(i, j) - mean) / n;
    const T deviation = std::sqrt(variance + eps);
    for (int i = 0; i < rows; ++i) {
      const T z = (x(i, j) - mean) / deviation, dz = dy(i, j) * gamma(j);
      dbeta(j) += dy(i, j);
      dgamma(j) += dy(i, j) * z;
      mean_dz += dz / n;
      mean_dz_z += dz * z / n;
    }
    for (int i = 0; i < rows; ++i) {
      const T z = (x(i, j) - mean) / deviation, dz = dy(i, j) * gamma(j);
      dx(i, j) = (dz - mean_dz - z * mean_dz_z) / deviation;
    }
  }
}
