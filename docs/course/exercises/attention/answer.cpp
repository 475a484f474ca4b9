// y = softmax(q k^T / sqrt(d)) v: dq, dk and dv from dy. exercise.md says more.
#include "course.h"

#include <vector>

using course::View;

template <class T>
void attention_backward(View<const T> dy, View<const T> q, View<const T> k, View<const T> v,
                        View<T> dq, View<T> dk, View<T> dv) {
  const T scale = 1 / std::sqrt(static_cast<T>(q.extent(1)));
  for (int i = 0; i < q.extent(0); ++i) {
    // Fill in: row i of p; of dp = dy v^T; of ds; then what it adds to dq, dk and dv.
  }
}
