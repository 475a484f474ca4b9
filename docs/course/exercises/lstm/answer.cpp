// One step of an LSTM: da and dc from dh_next and dc_next. exercise.md says more.
#include "course.h"

#include <cmath>

using course::View;

template <class T>
void lstm_backward(View<const T> dh_next, View<const T> dc_next, View<const T> a, View<const T> c,
                   View<T> da, View<T> dc) {
  const int examples = c.extent(0), units = c.extent(1);
  for (int n = 0; n < examples; ++n) {
    for (int k = 0; k < units; ++k) {
      // Fill in: the gates again from a, what arrives at c_next, then da(n, ...) of each gate and dc(n, k).
    }
  }
}
