#include "course.h"
using course::View;

template <class T>
void mul_backward(View<const T> dy, View<const T> a, View<const T> b, View<T> da, View<T> db) {
  for (int k = 0; k < dy.count(); ++k) {
    da[k] = dy[k] * b[k];
    db[k] = dy[k] * a[k];
  }
}
