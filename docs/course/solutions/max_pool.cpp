#include "course.h"
using course::View;

template <class T>
void max_pool_backward(View<const T> dy, View<const T> x, int size, int stride, View<T> dx) {
  for (int n = 0; n < dy.extent(0); ++n) {
    for (int h = 0; h < dy.extent(1); ++h) {
      for (int v = 0; v < dy.extent(2); ++v) {
        for (int c = 0; c < dy.extent(3); ++c) {
          int row = h * stride, column = v * stride;
          for (int i = 0; i < size; ++i) {
            for (int j = 0; j < size; ++j) {
              if (x(n, h * stride + i, v * stride + j, c) <= x(n, row, column, c)) continue;
              row = h * stride + i;
              column = v * stride + j;
            }
          }
          dx(n, row, column, c) += dy(n, h, v, c);
        }
      }
    }
  }
}
