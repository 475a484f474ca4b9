#include "course.h"

#include <vector>

using course::View;

template <class T>
void rnn_backward(View<const T> dy, View<const T> x, View<const T> h, View<const T> u, View<T> dw,
                  View<T> du) {
  const int steps = x.extent(0), examples = dy.extent(0), units = dy.extent(1);
  std::vector<T> dh(dy.data, dy.data + dy.count()), da(dh.size());
  for (int t = steps - 1; t >= 0; --t) {
    for (int n = 0; n < examples; ++n) {
      for (int k = 0; k < units; ++k) {
        const T y = h(t + 1, n, k);
        da[n * units + k] = dh[n * units + k] * (1 - y * y);
      }
    }
    for (T& value : dh) value = 0;
    for (int n = 0; n < examples; ++n) {
      for (int k = 0; k < units; ++k) {
        const T d = da[n * units + k];
        for (int i = 0; i < x.extent(2); ++i) dw(i, k) += x(t, n, i) * d;
        for (int i = 0; i < units; ++i) {
          du(i, k) += h(t, n, i) * d;
          dh[n * units + i] += d * u(i, k);
        }
      }
    }
  }
}
