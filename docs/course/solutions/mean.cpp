#include "course.h"
using course::View;

template <class T>
void mean_backward(View<const T> dy, View<T> dx) {
  for (int i = 0; i < dx.extent(0); ++i) {
    for (int j = 0; j < dx.extent(1); ++j) dx(i, j) = dy(j) / static_cast<T>(dx.extent(0));
  }
}
