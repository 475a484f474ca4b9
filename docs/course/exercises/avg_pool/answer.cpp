// y = avg_pool(x): dx from dy. exercise.md says more.
#include "course.h"
using course::View;

template <class T>
void avg_pool_backward(View<const T> dy, int size, int stride, View<T> dx) {
  for (int n = 0; n < dy.extent(0); ++n) {
    for (int h = 0; h < dy.extent(1); ++h) {
      for (int v = 0; v < dy.extent(2); ++v) {
        for (int c = 0; c < dy.extent(3); ++c) {
          // Fill in: what dy(n, h, v, c) gives to each element of this window.
        }
      }
    }
  }
}
