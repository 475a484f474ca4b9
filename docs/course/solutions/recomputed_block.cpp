#include "course.h"
using course::View;

template <class T>
void block_backward(View<const T> dy, View<const T> x, View<const T> w1, View<const T> w2,
                    View<T> dx, View<T> dw1, View<T> dw2) {
  for (int n = 0; n < x.extent(0); ++n) {
    for (int k = 0; k < w1.extent(1); ++k) {
      T a = 0, dh = 0;
      for (int i = 0; i < x.extent(1); ++i) a += x(n, i) * w1(i, k);
      const T h = std::tanh(a);
      for (int j = 0; j < dy.extent(1); ++j) {
        dw2(k, j) += h * dy(n, j);
        dh += dy(n, j) * w2(k, j);
      }
      const T da = dh * (1 - h * h);
      for (int i = 0; i < x.extent(1); ++i) {
        dx(n, i) += da * w1(i, k);
        dw1(i, k) += x(n, i) * da;
      }
    }
  }
}
