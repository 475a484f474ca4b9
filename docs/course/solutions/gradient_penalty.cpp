#include "course.h"
using course::View;

template <class T>
void gradient_penalty(View<const T> x, View<T> dx) {
  for (int k = 0; k < x.count(); ++k) {
    const T y = std::tanh(x[k]), g = 1 - y * y;
    dx[k] = -4 * y * g * g;
  }
}
