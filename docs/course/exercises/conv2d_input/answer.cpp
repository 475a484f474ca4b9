// y = conv2d(x, w): dx from dy. exercise.md says more.
#include "course.h"
using course::View;

template <class T>
void conv2d_backward_input(View<const T> dy, View<const T> w, int stride, int padding, View<T> dx) {
  for (int n = 0; n < dy.extent(0); ++n) {
    for (int h = 0; h < dy.extent(1); ++h) {
      for (int v = 0; v < dy.extent(2); ++v) {
        for (int o = 0; o < dy.extent(3); ++o) {
          // Fill in: what dy(n, h, v, o) gives to the elements of dx that y(n, h, v, o) read.
        }
      }
    }
  }
}
