// h(t + 1) = tanh(x(t) w + h(t) u): dw and du from dy. exercise.md says more.
#include "course.h"

#include <vector>

using course::View;

template <class T>
void rnn_backward(View<const T> dy, View<const T> x, View<const T> h, View<const T> u, View<T> dw,
                  View<T> du) {
  const int steps = x.extent(0), examples = dy.extent(0), units = dy.extent(1);
  for (int t = steps - 1; t >= 0; --t) {
    // Fill in: da from dh (at first dy); what step t adds to dw and du; the dh of the step before.
  }
}
