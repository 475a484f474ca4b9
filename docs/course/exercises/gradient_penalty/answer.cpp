// P = the sum of g^2 with g = the slope of tanh(x): dx = dP/dx. exercise.md says more.
#include "course.h"
using course::View;

template <class T>
void gradient_penalty(View<const T> x, View<T> dx) {
  for (int k = 0; k < x.count(); ++k) {
    // Fill in: dx[k].
  }
}
