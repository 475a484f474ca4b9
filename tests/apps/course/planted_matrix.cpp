#include "tests/apps/course/planted.h"

#include <algorithm>

namespace whisker {
namespace {
namespace solutions {
#include "docs/course/solutions/adam_step.cpp"
#include "docs/course/solutions/cross_entropy.cpp"
#include "docs/course/solutions/matmul_left.cpp"
#include "docs/course/solutions/matmul_right.cpp"
#include "docs/course/solutions/mean.cpp"
}  // namespace solutions

using course::View;

template <int fault, class T>
void mean_backward(View<const T> dy, View<T> dx) {
  const int rows = dx.extent(0), columns = dx.extent(1);
  const int divisor = fault == 2 ? 1 : fault == 3 ? columns : fault == 4 ? rows * columns : rows;
  for (int i = 0; i < (fault == 5 ? 1 : rows); ++i) {
    for (int j = 0; j < columns; ++j) {
      dx(i, j) = fault == 1 ? 0 : (fault == 6 ? 1 : dy[j]) / static_cast<T>(divisor);
    }
  }
}

template <int fault, class T>
void matmul_left(View<const T> dy, View<const T> b, View<T> da) {
  for (int i = 0; i < da.extent(0); ++i) {
    for (int k = 0; k < da.extent(1); ++k) {
      for (int j = 0; j < dy.extent(1); ++j) {
        const T term = dy(i, j) * (fault == 2 ? b(j, k) : fault == 5 ? 1 : b(k, j));
        if (fault == 1) continue;
        T& into = fault == 6 ? da.data[k * da.extent(0) + i] : da(i, k);
        into = (fault == 3 ? 0 : into) + (fault == 4 ? -term : term);
      }
    }
  }
}

template <int fault, class T>
void matmul_right(View<const T> dy, View<const T> a, View<T> db) {
  for (int k = 0; k < db.extent(0); ++k) {
    for (int j = 0; j < db.extent(1); ++j) {
      for (int i = 0; i < dy.extent(0); ++i) {
        const T term = (fault == 2 ? a(k, i) : a(i, k)) * dy(i, j);
        if (fault == 1 || (fault == 6 && k != j)) continue;
        T& into = db(k, j);
        into = (fault == 3 ? 0 : into) +
               (fault == 4 ? -term : term) / static_cast<T>(fault == 5 ? dy.extent(0) : 1);
      }
    }
  }
}

template <int fault, class T>
void cross_entropy_backward(View<const T> logits, View<const int> labels, View<T> dlogits) {
  const int rows = logits.extent(0), classes = logits.extent(1);
  for (int i = 0; i < rows; ++i) {
    T largest = fault == 4 ? 0 : logits(i, 0), total = 0;
    for (int c = 0; c < classes && fault != 4; ++c) largest = std::max(largest, logits(i, c));
    for (int c = 0; c < classes; ++c) total += std::exp(logits(i, c) - largest);
    for (int c = 0; c < classes; ++c) {
      const T p = std::exp(logits(i, c) - largest) / total;
      const T target = fault == 5 ? 0 : fault == 6 ? 1 : c == labels[i];
      if (fault == 1) continue;
      if (fault == 7 && c != labels[i]) continue;
      dlogits(i, c) =
          (fault == 3 ? target - p : p - target) / static_cast<T>(fault == 2 ? 1 : rows);
    }
  }
}

template <int fault, class T>
void adam_step(View<const T> w, View<const T> g, View<const T> m, View<const T> v, T lr, T beta1,
               T beta2, T eps, int step, View<T> new_w, View<T> new_m, View<T> new_v) {
  for (int k = 0; k < w.count(); ++k) {
    if (fault == 1) continue;
    new_m[k] = beta1 * m[k] + (fault == 5 ? 1 : 1 - beta1) * g[k];
    new_v[k] = beta2 * v[k] + (1 - beta2) * (fault == 4 ? std::fabs(g[k]) : g[k] * g[k]);
    const T power = static_cast<T>(step);
    const T m_hat = new_m[k] / (fault == 2 ? 1 : 1 - std::pow(beta1, power));
    const T v_hat = new_v[k] / (fault == 2 ? 1 : 1 - std::pow(beta2, power));
    const T root = fault == 3 ? std::sqrt(v_hat + eps) : std::sqrt(v_hat) + eps;
    new_w[k] = fault == 6 ? w[k] + lr * m_hat / root : w[k] - lr * m_hat / root;
  }
}

}  // namespace

void plant_matrix(std::vector<Planted>& all) {
  plant(all, "mean",
        {"0 everywhere", "x.extent(0) times too large", "number of columns", "number of elements",
         "dx(1,0) is the first that is never written", "dy is left out"},
        ANSWERS(mean_backward));
  plant(all, "matmul_left",
        {"0 everywhere", "a factor is not transposed", "sum over the columns of dy is missing",
         "sign is wrong", "b is left out", "transposed: rows and columns are interchanged"},
        ANSWERS(matmul_left));
  plant(all, "matmul_right",
        {"0 everywhere", "a factor is not transposed", "sum over the rows (the batch) is missing",
         "sign is wrong", "a mean instead of a sum", "db(0,1) is the first that is never written"},
        ANSWERS(matmul_right));
  plant(all, "cross_entropy",
        {"0 everywhere", "logits.extent(0) times too large", "sign is wrong", "large logits",
         "label is missing", "subtracted from each column", "only the column of the label"},
        ANSWERS(cross_entropy_backward));
  plant(all, "adam_step",
        {"0 everywhere", "bias correction is missing", "eps stands inside the root", "not squared",
         "factor 1 - beta1", "goes uphill"},
        ANSWERS(adam_step));
}

}  // namespace whisker
