#include "course.h"
using course::View;

template <class T>
void matmul_right(View<const T> dy, View<const T> a, View<T> db) {
  for (int k = 0; k < db.extent(0); ++k) {
    for (int j = 0; j < db.extent(1); ++j) {
      for (int i = 0; i < dy.extent(0); ++i) db(k, j) += a(i, k) * dy(i, j);
    }
  }
}
