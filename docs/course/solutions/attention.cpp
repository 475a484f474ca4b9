#include "course.h"

#include <vector>

using course::View;

template <class T>
void attention_backward(View<const T> dy, View<const T> q, View<const T> k, View<const T> v,
                        View<T> dq, View<T> dk, View<T> dv) {
  const int keys = k.extent(0);
  const T scale = 1 / std::sqrt(static_cast<T>(q.extent(1)));
  std::vector<T> p(keys), dp(keys);
  for (int i = 0; i < q.extent(0); ++i) {
    T total = 0, row = 0;
    for (int j = 0; j < keys; ++j) {
      T s = 0;
      for (int c = 0; c < q.extent(1); ++c) s += q(i, c) * k(j, c) * scale;
      p[j] = std::exp(s);
      total += p[j];
    }
    for (int j = 0; j < keys; ++j) {
      p[j] /= total;
      dp[j] = 0;
      for (int c = 0; c < v.extent(1); ++c) dp[j] += dy(i, c) * v(j, c);
      row += dp[j] * p[j];
    }
    for (int j = 0; j < keys; ++j) {
      const T ds = p[j] * (dp[j] - row) * scale;
      for (int c = 0; c < q.extent(1); ++c) {
        dq(i, c) += ds * k(j, c);
        dk(j, c) += ds * q(i, c);
      }
      for (int c = 0; c < v.extent(1); ++c) dv(j, c) += p[j] * dy(i, c);
    }
  }
}
