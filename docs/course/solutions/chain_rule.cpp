#include "course.h"

template <class T>
void chain_rule(T x, T w, T b, T t, T& dx, T& dw, T& db) {
  const T y = std::tanh(w * x + b);
  const T dy = 2 * (y - t);
  const T du = dy * (1 - y * y);
  dx = du * w;
  dw = du * x;
  db = du;
}
