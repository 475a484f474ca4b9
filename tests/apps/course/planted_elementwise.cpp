#include "tests/apps/course/planted.h"

namespace whisker {
namespace {

using course::View;

template <int fault, class T>
void chain_rule(T x, T w, T b, T t, T& dx, T& dw, T& db) {
  const T u = w * x + b;
  const T y = std::tanh(u);
  const T dy = (fault == 1 ? 1 : 2) * (fault == 2 ? t - y : y - t);
  const T du = fault == 3 ? dy : dy * (fault == 4 ? 1 - u * u : 1 - y * y);
  if (fault == 5) return;
  dx = du * (fault == 6 ? x : w);
  dw = du * (fault == 6 ? w : fault == 7 ? 1 : x);
  db = du;
}

template <int fault, class T>
void mul_backward(View<const T> dy, View<const T> a, View<const T> b, View<T> da, View<T> db) {
  for (int k = fault == 8 ? 1 : 0; k < dy.count(); ++k) {
    if (fault == 1) continue;
    da[k] = fault == 2 ? b[k] : fault == 4 ? dy[k] : fault == 7 ? dy[k] / b[k] : dy[k] * b[k];
    db[k] = (fault == 3 ? -1 : 1) * (fault == 2 ? a[k] : fault == 4 ? dy[k] : dy[k] * a[k]);
    if (fault == 5) std::swap(da[k], db[k]);
    if (fault == 6) da[k] = dy[k] * a[k];
  }
}

template <int fault, class T>
void add_backward(View<const T> dy, View<T> da, View<T> db) {
  const int rows = dy.extent(0), columns = dy.extent(1);
  for (int i = 0; i < (fault == 5 ? 1 : rows); ++i) {
    for (int j = 0; j < columns; ++j) {
      if (fault == 1) continue;
      da(i, j) = dy(i, j);
      if (fault == 2)
        db(j) = dy(i, j);
      else if (fault == 3)
        db(j) += dy(i, j) / static_cast<T>(rows);
      else if (fault == 4)
        db(j) -= dy(i, j);
      else if (fault == 6)
        db(i) += dy(i, j);
      else if (fault == 7 && i > 0)
        continue;
      else
        db(j) += dy(i, j);
    }
  }
}

}  // namespace

void plant_elementwise(std::vector<Planted>& all) {
  plant(
      all, "chain_rule",
      {"times what it should be", "sign is wrong", "slope of tanh is missing", "of its result y",
       "0 everywhere", "is x, not w", "last factor is missing"},
      []<int n, class T>(std::integral_constant<int, n>, T) { return &chain_rule<n, T>; },
      std::make_integer_sequence<int, 8>());
  plant(
      all, "mul",
      {"0 everywhere", "dy is left out", "db: the sign is wrong", "other factor is missing",
       "slope with respect to a is b, not a", "slope with respect to a is b, not a",
       "divides where the rule multiplies", "da(0) is the first that is never written"},
      []<int n, class T>(std::integral_constant<int, n>, T) { return &mul_backward<n, T>; },
      std::make_integer_sequence<int, 9>());
  plant(
      all, "add_broadcast",
      {"0 everywhere", "sum over the rows is missing", "mean over the rows", "sign is wrong",
       "those with broadcasting", "index 2 of axis 0 of db is outside", "it holds the first row"},
      []<int n, class T>(std::integral_constant<int, n>, T) { return &add_backward<n, T>; },
      std::make_integer_sequence<int, 8>());
}

}  // namespace whisker
