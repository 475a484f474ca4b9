#include "course.h"
using course::View;

template <class T>
void conv2d_backward_input(View<const T> dy, View<const T> w, int stride, int padding, View<T> dx) {
  for (int n = 0; n < dy.extent(0); ++n) {
    for (int h = 0; h < dy.extent(1); ++h) {
      for (int v = 0; v < dy.extent(2); ++v) {
        for (int o = 0; o < dy.extent(3); ++o) {
          for (int i = 0; i < w.extent(1); ++i) {
            for (int j = 0; j < w.extent(2); ++j) {
              const int row = h * stride + i - padding, column = v * stride + j - padding;
              if (row < 0 || row >= dx.extent(1) || column < 0 || column >= dx.extent(2)) continue;
              for (int c = 0; c < w.extent(3); ++c)
                dx(n, row, column, c) += dy(n, h, v, o) * w(o, i, j, c);
            }
          }
        }
      }
    }
  }
}
