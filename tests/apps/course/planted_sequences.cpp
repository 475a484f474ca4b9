#include "tests/apps/course/planted.h"

#include <vector>

namespace whisker {
namespace {
namespace solutions {
#include "docs/course/solutions/attention.cpp"
#include "docs/course/solutions/embedding.cpp"
#include "docs/course/solutions/gradient_penalty.cpp"
#include "docs/course/solutions/lstm.cpp"
#include "docs/course/solutions/recomputed_block.cpp"
#include "docs/course/solutions/rnn.cpp"
}  // namespace solutions

using course::View;

template <int fault, class T>
void embedding_backward(View<const T> dy, View<const int> index, View<T> dtable) {
  for (int i = 0; i < dy.extent(0); ++i) {
    for (int j = 0; j < dy.extent(1); ++j) {
      if (fault == 1 || (fault == 6 && j > 0)) continue;
      T& into = dtable(fault == 3 ? i : index[i], j);
      into = (fault == 2 ? 0 : into) + (fault == 4 ? -1 : 1) * (fault == 5 ? 1 : dy(i, j));
    }
  }
}

template <int fault, class T>
void rnn_backward(View<const T> dy, View<const T> x, View<const T> h, View<const T> u, View<T> dw,
                  View<T> du) {
  const int examples = dy.extent(0), units = dy.extent(1), features = x.extent(2);
  std::vector<T> dh(dy.data, dy.data + dy.count()), da(dh.size());
  for (int t = x.extent(0) - 1; t >= 0; --t) {
    if (fault == 1) return;
    for (int n = 0; n < examples; ++n)
      for (int k = 0; k < units; ++k) {
        const T y = h(t + 1, n, k);
        const auto at = static_cast<size_t>(n * units + k);
        da[at] = dh[at] * (fault == 2 ? 1 : 1 - y * y);
      }
    std::fill(dh.begin(), dh.end(), T(0));
    for (int n = 0; n < examples; ++n)
      for (int k = 0; k < units; ++k) {
        const T d = da[static_cast<size_t>(n * units + k)];
        for (int i = 0; i < features; ++i) dw(i, k) += x(t, n, i) * d;
        for (int i = 0; i < units; ++i) {
          du(i, k) += h(fault == 3 ? t + 1 : t, n, i) * d;
          dh[static_cast<size_t>(n * units + i)] += d * (fault == 4 ? u(k, i) : u(i, k));
        }
      }
    if (fault == 5) return;
    if (fault == 6) std::copy(dy.data, dy.data + dy.count(), dh.begin());
  }
}

template <int fault, class T>
void lstm_backward(View<const T> dh_next, View<const T> dc_next, View<const T> a, View<const T> c,
                   View<T> da, View<T> dc) {
  const int units = c.extent(1), g_at = fault == 2 ? 3 : 2;
  const auto sigmoid = [](T x) { return 1 / (1 + std::exp(-x)); };
  for (int n = 0; n < c.extent(0) && fault != 1; ++n) {
    for (int k = 0; k < units; ++k) {
      const T i = sigmoid(a(n, k)), f = sigmoid(a(n, units + k));
      const T g = std::tanh(a(n, g_at * units + k)), o = sigmoid(a(n, (5 - g_at) * units + k));
      const T c_next = f * c(n, k) + i * g, t = std::tanh(c_next);
      const T slope = fault == 3 || fault == 5 ? 1 : 1 - t * t, sign = fault == 6 ? -1 : 1;
      const T dcell = (fault == 7 ? 0 : dc_next(n, k)) + dh_next(n, k) * o * slope;
      da(n, k) = sign * dcell * g * (fault == 8 ? 1 : i * (1 - i));
      da(n, units + k) =
          sign * dcell * (fault == 9 ? c_next : c(n, k)) * (fault == 8 ? 1 : f * (1 - f));
      da(n, g_at * units + k) = sign * dcell * i * (fault == 8 ? 1 : 1 - g * g);
      da(n, (5 - g_at) * units + k) =
          sign * dh_next(n, k) * (fault == 3 ? c_next : t) * (fault == 8 ? 1 : o * (1 - o));
      dc(n, k) = sign * (fault == 4 ? dcell : dcell * f);
    }
  }
}

template <int fault, class T>
void attention_backward(View<const T> dy, View<const T> q, View<const T> k, View<const T> v,
                        View<T> dq, View<T> dk, View<T> dv) {
  const int keys = k.extent(0), width = q.extent(1);
  const T scale = 1 / std::sqrt(static_cast<T>(width));
  for (int i = 0; i < q.extent(0) && fault != 1; ++i) {
    std::vector<T> p(static_cast<size_t>(keys)), dp(p);
    T total = 0, inner = 0;
    for (int j = 0; j < keys; ++j) {
      T score = 0;
      for (int d = 0; d < width; ++d) score += q(i, d) * k(j, d) * scale;
      total += p[static_cast<size_t>(j)] = std::exp(score);
    }
    for (int j = 0; j < keys; ++j) {
      const auto at = static_cast<size_t>(j);
      p[at] /= total;
      for (int d = 0; d < v.extent(1); ++d) dp[at] += dy(i, d) * v(j, d);
      inner += p[at] * dp[at];
    }
    for (int j = 0; j < keys; ++j) {
      const auto at = static_cast<size_t>(j);
      T ds = p[at] * (dp[at] - inner) * (fault == 2 ? 1 : scale);
      if (fault == 3) ds = p[at] * (1 - p[at]) * dp[at] * scale;
      if (fault == 6) ds = p[at] * dp[at] * scale;
      for (int d = 0; d < width; ++d) {
        dq(i, d) += ds * k(j, d);
        dk(fault == 4 ? i : j, d) += ds * q(fault == 4 ? j : i, d);
      }
      for (int d = 0; d < v.extent(1); ++d)
        dv(fault == 5 ? i : j, d) += p[at] * dy(fault == 5 ? j : i, d);
    }
  }
}

template <int fault, class T>
void block_backward(View<const T> dy, View<const T> x, View<const T> w1, View<const T> w2,
                    View<T> dx, View<T> dw1, View<T> dw2) {
  if (fault == 1) return;
  for (int n = 0; n < x.extent(0); ++n) {
    for (int k = 0; k < w1.extent(1); ++k) {
      T a = 0, dh = 0;
      for (int i = 0; i < x.extent(1); ++i) a += x(n, i) * w1(i, k);
      const T h = std::tanh(a);
      for (int j = 0; j < dy.extent(1); ++j) {
        dh += dy(n, j) * w2(k, j);
        dw2(k, j) = (fault == 5 ? 0 : dw2(k, j)) + (fault == 2 ? a : h) * dy(n, j);
      }
      const T da = fault == 3 ? dh : dh * (1 - (fault == 4 ? a * a : h * h));
      for (int i = 0; i < x.extent(1); ++i) {
        dx(n, i) += da * (fault == 6 ? w1(k, i) : w1(i, k));
        dw1(i, k) += x(n, i) * da;
      }
    }
  }
}

template <int fault, class T>
void gradient_penalty(View<const T> x, View<T> dx) {
  for (int k = 0; k < x.count(); ++k) {
    const T y = std::tanh(x[k]), g = 1 - y * y;
    dx[k] = fault == 1   ? 0
            : fault == 2 ? 2 * g
            : fault == 3 ? -2 * y * g
            : fault == 4 ? -4 * y * g
            : fault == 5 ? 4 * y * g * g
            : fault == 6 ? -2 * y * g * g
                         : -4 * y * g * g;
  }
}

}  // namespace

void plant_sequences(std::vector<Planted>& all) {
  plant(all, "embedding",
        {"0 everywhere", "keeps its last gradient", "index is not used", "sign is wrong",
         "dy is left out", "is the first that is never written"},
        ANSWERS(embedding_backward));
  plant(all, "rnn",
        {"0 everywhere", "slope of tanh is missing", "du: the wrong state", "u is not transposed",
         "the last step alone counts", "each check but those with several steps"},
        ANSWERS(rnn_backward));
  plant(all, "lstm",
        {"da, dc: it is 0 everywhere", "da, dc: the order of the gates is wrong",
         "tanh of the cell is forgotten", "dc: the forget gate is missing",
         "da, dc: the slope of the cell's tanh is missing", "da, dc: the sign is wrong",
         "da, dc: dc_next is not used", "da: the slopes of the gates' own",
         "da: the wrong state: the forget gate multiplies c"},
        ANSWERS(lstm_backward));
  plant(all, "attention",
        {"0 everywhere", "scale 1 / sqrt(d) is missing", "only the diagonal",
         "dk: ds is not transposed", "dv: p is not transposed", ""},
        ANSWERS(attention_backward));
  plant(all, "recomputed_block",
        {"0 everywhere", "x w1 before the tanh", "slope of tanh is missing", "at the wrong tensor",
         "the last example alone", "w1 is not transposed"},
        ANSWERS(block_backward));
  plant(all, "gradient_penalty",
        {"0 everywhere", "this is dP/dg", "slope of g alone", "missing once", "sign is wrong",
         "0.5 times"},
        ANSWERS(gradient_penalty));
}

}  // namespace whisker
