// y = tanh(x w1) w2, given x alone: dx, dw1 and dw2 from dy. exercise.md says more.
#include "course.h"
using course::View;

template <class T>
void block_backward(View<const T> dy, View<const T> x, View<const T> w1, View<const T> w2,
                    View<T> dx, View<T> dw1, View<T> dw2) {
  for (int n = 0; n < x.extent(0); ++n) {
    for (int k = 0; k < w1.extent(1); ++k) {
      // Fill in: h of example n and unit k, forward; then its gradient, and what it gives to the
      // others.
    }
  }
}
