#include "course.h"
using course::View;

template <class T>
void adam_step(View<const T> w, View<const T> g, View<const T> m, View<const T> v, T lr, T beta1,
               T beta2, T eps, int step, View<T> new_w, View<T> new_m, View<T> new_v) {
  const T correction1 = 1 - std::pow(beta1, static_cast<T>(step));
  const T correction2 = 1 - std::pow(beta2, static_cast<T>(step));
  for (int k = 0; k < w.count(); ++k) {
    new_m[k] = beta1 * m[k] + (1 - beta1) * g[k];
    new_v[k] = beta2 * v[k] + (1 - beta2) * g[k] * g[k];
    new_w[k] = w[k] - lr * (new_m[k] / correction1) / (std::sqrt(new_v[k] / correction2) + eps);
  }
}
