#include "course.h"
using course::View;

template <class T>
void embedding_backward(View<const T> dy, View<const int> index, View<T> dtable) {
  for (int i = 0; i < dy.extent(0); ++i) {
    for (int j = 0; j < dy.extent(1); ++j) dtable(index[i], j) += dy(i, j);
  }
}
