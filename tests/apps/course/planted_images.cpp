#include "tests/apps/course/planted.h"

namespace whisker {
namespace {
namespace solutions {
#include "docs/course/solutions/avg_pool.cpp"
#include "docs/course/solutions/batch_norm.cpp"
#include "docs/course/solutions/conv2d_input.cpp"
#include "docs/course/solutions/conv2d_weight.cpp"
#include "docs/course/solutions/layer_norm.cpp"
#include "docs/course/solutions/max_pool.cpp"
}  // namespace solutions

using course::View;

// Calls term(n, h, w, o, i, j, c, row, column) for each product of a convolution.
template <class Dy, class W, class Term>
void each_product(Dy dy, W filters, int height, int width, int stride, int padding, Term term) {
  for (int n = 0; n < dy.extent(0); ++n)
    for (int h = 0; h < dy.extent(1); ++h)
      for (int w = 0; w < dy.extent(2); ++w)
        for (int o = 0; o < dy.extent(3); ++o)
          for (int i = 0; i < filters.extent(1); ++i)
            for (int j = 0; j < filters.extent(2); ++j)
              for (int c = 0; c < filters.extent(3); ++c) {
                const int row = h * stride + i - padding, column = w * stride + j - padding;
                if (row < 0 || row >= height || column < 0 || column >= width) continue;
                term(n, h, w, o, i, j, c, row, column);
              }
}

template <int fault, class T>
void conv2d_backward_input(View<const T> dy, View<const T> w, int stride, int padding, View<T> dx) {
  if (fault == 1) return;
  const int used_stride = fault == 2 ? 1 : stride, used_padding = fault == 3 ? 0 : padding;
  each_product(dy, w, dx.extent(1), dx.extent(2), used_stride, used_padding,
               [&](int n, int h, int x, int o, int i, int j, int c, int row, int column) {
                 const int a = fault == 4 ? w.extent(1) - 1 - i : i;
                 const int b = fault == 4 ? w.extent(2) - 1 - j : j;
                 const T term = dy(n, h, x, o) * w(o, a, b, c);
                 if (fault == 7 && c > 0) return;
                 T& into = dx(n, row, column, c);
                 into = (fault == 5 ? 0 : into) + (fault == 6 ? -term : term);
               });
}

template <int fault, class T>
void conv2d_backward_weight(View<const T> dy, View<const T> x, int stride, int padding,
                            View<T> dw) {
  if (fault == 1) return;
  const int used_stride = fault == 2 ? 1 : stride, used_padding = fault == 3 ? 0 : padding;
  each_product(dy, dw, x.extent(1), x.extent(2), used_stride, used_padding,
               [&](int n, int h, int w, int o, int i, int j, int c, int row, int column) {
                 const T term = dy(n, h, w, o) * x(n, row, column, c);
                 if (fault == 4 && n + 1 < dy.extent(0)) return;
                 T& into = fault == 7 ? dw(o, dw.extent(1) - 1 - i, dw.extent(2) - 1 - j, c)
                                      : dw(o, i, j, c);
                 into =
                     (fault == 5 ? 0 : into) + term / static_cast<T>(fault == 6 ? dy.extent(0) : 1);
               });
}

template <int fault, class T>
void max_pool_backward(View<const T> dy, View<const T> x, int size, int stride, View<T> dx) {
  if (fault == 1) return;
  const int used = fault == 2 ? size : stride;
  for (int n = 0; n < dy.extent(0); ++n)
    for (int h = 0; h < dy.extent(1); ++h)
      for (int w = 0; w < dy.extent(2); ++w)
        for (int c = 0; c < dy.extent(3); ++c) {
          int row = 0, column = 0;
          T best = fault == 3 ? T(0) : T(-1e30);
          for (int i = 0; i < size; ++i)
            for (int j = 0; j < size; ++j) {
              const T value = (fault == 8 ? -1 : 1) * x(n, h * used + i, w * used + j, c);
              if (fault == 4)
                dx(n, h * used + i, w * used + j, c) +=
                    dy(n, h, w, c) / static_cast<T>(size * size);
              if (fault == 5) dx(n, h * used + i, w * used + j, c) += dy(n, h, w, c);
              if (value <= best) continue;
              best = value;
              row = h * used + i;
              column = w * used + j;
            }
          if (fault == 4 || fault == 5) continue;
          T& into = dx(n, row, column, c);
          into = (fault == 6 ? 0 : into) + dy(n, h, w, c) * (fault == 7 ? best : 1);
        }
}

template <int fault, class T>
void avg_pool_backward(View<const T> dy, int size, int stride, View<T> dx) {
  if (fault == 1) return;
  const int used = fault == 2 ? size : stride;
  const T scale = static_cast<T>(fault == 3 ? 1 : fault == 4 ? size : size * size);
  for (int n = 0; n < dy.extent(0); ++n)
    for (int h = 0; h < dy.extent(1); ++h)
      for (int w = 0; w < dy.extent(2); ++w)
        for (int c = 0; c < dy.extent(3); ++c)
          for (int i = 0; i < size; ++i)
            for (int j = 0; j < size; ++j) {
              if (fault == 6 && (i > 0 || j > 0)) continue;
              T& into = dx(n, h * used + i, w * used + j, c);
              into = (fault == 5 ? 0 : into) + dy(n, h, w, c) / scale;
            }
}

// Of batch norm the columns, of layer norm the rows are normalised.
template <int fault, class T>
void norm_backward(bool columns, View<const T> dy, View<const T> x, View<const T> gamma, T eps,
                   View<T> dx, View<T> dgamma, View<T> dbeta) {
  if (fault == 1) return;
  const int groups = x.extent(columns ? 1 : 0), size = x.extent(columns ? 0 : 1);
  const T n = static_cast<T>(size);
  const auto row = [&](int g, int k) { return columns ? k : g; };
  const auto column = [&](int g, int k) { return columns ? g : k; };
  for (int g = 0; g < groups; ++g) {
    T mean = 0, square = 0, sum_dz = 0, sum_dz_z = 0;
    for (int k = 0; k < size; ++k) mean += x(row(g, k), column(g, k)) / n;
    for (int k = 0; k < size; ++k) {
      const T centered = x(row(g, k), column(g, k)) - mean;
      square += centered * centered / (fault == 2 ? n - 1 : n);
    }
    const T deviation = std::sqrt(square + eps);
    const auto z = [&](int k) { return (x(row(g, k), column(g, k)) - mean) / deviation; };
    const auto dz = [&](int k) {
      return dy(row(g, k), column(g, k)) * (fault == 3 ? 1 : gamma[column(g, k)]);
    };
    for (int k = 0; k < size; ++k) {
      sum_dz += dz(k);
      sum_dz_z += dz(k) * z(k);
      const T seen = dy(row(g, k), column(g, k));
      T& into = dgamma[column(g, k)];
      into = (fault == 7 ? 0 : into) + seen * (fault == 6 ? x(row(g, k), column(g, k)) : z(k));
      dbeta[column(g, k)] += seen;
    }
    for (int k = 0; k < size; ++k) {
      T inner = dz(k);
      if (fault != 4) inner -= sum_dz / n;
      if (fault != 4 && fault != 5) inner -= z(k) * sum_dz_z / n;
      dx(row(g, k), column(g, k)) = inner / deviation;
    }
  }
}

template <int fault, class T>
void batch_norm_backward(View<const T> dy, View<const T> x, View<const T> gamma, T eps, View<T> dx,
                         View<T> dgamma, View<T> dbeta) {
  norm_backward<fault>(true, dy, x, gamma, eps, dx, dgamma, dbeta);
}

template <int fault, class T>
void layer_norm_backward(View<const T> dy, View<const T> x, View<const T> gamma, T eps, View<T> dx,
                         View<T> dgamma, View<T> dbeta) {
  norm_backward<fault>(false, dy, x, gamma, eps, dx, dgamma, dbeta);
}

}  // namespace

void plant_images(std::vector<Planted>& all) {
  plant(all, "conv2d_input",
        {"0 everywhere", "each check but those with stride 2",
         "each check but those with padding 1", "turned by 180 degrees", "'=' keeps the last term",
         "sign is wrong", "is the first that is never written"},
        ANSWERS(conv2d_backward_input));
  plant(
      all, "conv2d_weight",
      {"0 everywhere", "each check but those with stride 2", "each check but those with padding 1",
       "last example alone", "'=' keeps the last term", "divided by x.extent(0)", "turned by 180"},
      ANSWERS(conv2d_backward_weight));
  plant(all, "max_pool",
        {"0 everywhere", "is outside", "values below 0", "average pooling",
         "each element of the window", "overlapping windows", "slope of a maximum is 1",
         "smallest element"},
        ANSWERS(max_pool_backward));
  plant(all, "avg_pool",
        {"0 everywhere", "is outside", "scale 1 / (size size)", "divided by size",
         "overlapping windows", ""},
        ANSWERS(avg_pool_backward));
  constexpr const char* norm_causes[] = {"0 everywhere",
                                         "divided by n - 1",
                                         "gamma is missing",
                                         "taken for constants",
                                         "term of the variance is missing",
                                         "x is not normalised",
                                         "sum over the rows is missing"};
  plant(all, "batch_norm", norm_causes, ANSWERS(batch_norm_backward));
  plant(all, "layer_norm", norm_causes, ANSWERS(layer_norm_backward));
}

}  // namespace whisker
