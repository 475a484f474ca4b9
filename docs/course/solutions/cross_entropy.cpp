#include "course.h"
using course::View;

template <class T>
void cross_entropy_backward(View<const T> logits, View<const int> labels, View<T> dlogits) {
  const int rows = logits.extent(0), classes = logits.extent(1);
  for (int i = 0; i < rows; ++i) {
    T largest = logits(i, 0), total = 0;
    for (int c = 1; c < classes; ++c) largest = logits(i, c) > largest ? logits(i, c) : largest;
    for (int c = 0; c < classes; ++c) total += std::exp(logits(i, c) - largest);
    for (int c = 0; c < classes; ++c) {
      const T p = std::exp(logits(i, c) - largest) / total;
      dlogits(i, c) = (p - (c == labels[i] ? 1 : 0)) / static_cast<T>(rows);
    }
  }
}
