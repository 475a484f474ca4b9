#include "course.h"
using course::View;

template <class T>
void power_backward(View<const T> dy, View<const T> x, T p, View<T> dx, T& dp) {
  for (int k = 0; k < x.count(); ++k) {
    dx[k] = dy[k] * p * std::pow(x[k], p - 1);
    dp += dy[k] * std::pow(x[k], p) * std::log(x[k]);
  }
}
