#include "course.h"

#include <cmath>

using course::View;

template <class T>
void lstm_backward(View<const T> dh_next, View<const T> dc_next, View<const T> a, View<const T> c,
                   View<T> da, View<T> dc) {
  const int examples = c.extent(0), units = c.extent(1);
  const auto sigmoid = [](T x) { return 1 / (1 + std::exp(-x)); };
  for (int n = 0; n < examples; ++n) {
    for (int k = 0; k < units; ++k) {
      const T i = sigmoid(a(n, k)), f = sigmoid(a(n, units + k));
      const T g = std::tanh(a(n, 2 * units + k)), o = sigmoid(a(n, 3 * units + k));
      const T t = std::tanh(f * c(n, k) + i * g);
      const T dcell = dc_next(n, k) + dh_next(n, k) * o * (1 - t * t);
      da(n, k) = dcell * g * i * (1 - i);
      da(n, units + k) = dcell * c(n, k) * f * (1 - f);
      da(n, 2 * units + k) = dcell * i * (1 - g * g);
      da(n, 3 * units + k) = dh_next(n, k) * t * o * (1 - o);
      dc(n, k) = dcell * f;
    }
  }
}
