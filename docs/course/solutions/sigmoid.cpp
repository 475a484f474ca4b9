#include "course.h"
using course::View;

template <class T>
void sigmoid_backward(View<const T> dy, View<const T> y, View<T> dx) {
  for (int k = 0; k < y.count(); ++k) dx[k] = dy[k] * y[k] * (1 - y[k]);
}
