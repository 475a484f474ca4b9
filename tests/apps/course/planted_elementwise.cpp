#include "tests/apps/course/planted.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace whisker {
namespace {
namespace solutions {
#include "docs/course/solutions/add_broadcast.cpp"
#include "docs/course/solutions/chain_rule.cpp"
#include "docs/course/solutions/mul.cpp"
#include "docs/course/solutions/power.cpp"
#include "docs/course/solutions/relu.cpp"
#include "docs/course/solutions/scalar_engine.cpp"
#include "docs/course/solutions/sigmoid.cpp"
#include "docs/course/solutions/tanh.cpp"
// clang-format off: behind scalar_engine.cpp, whose engine it runs
#include "docs/course/exercises/scalar_engine/call.h"
// clang-format on
}  // namespace solutions

using course::View;

template <int fault, class T>
void chain_rule(T x, T w, T b, T t, T& dx, T& dw, T& db) {
  const T u = w * x + b;
  const T y = std::tanh(u);
  const T dy = (fault == 1 ? 1 : 2) * (fault == 2 ? t - y : y - t);
  const T of_slope = fault == 4 ? u : fault == 8 ? std::tanh(y) : y;
  const T du = fault == 3 ? dy : dy * (1 - of_slope * of_slope);
  if (fault == 5) return;
  dx = du * (fault == 6 ? x : w);
  dw = du * (fault == 6 ? w : fault == 7 ? 1 : x);
  db = fault == 9 ? du * b : du;
}

// The engine of the solution with a fault in one rule.
template <int fault>
struct FaultyEngine {
  template <class T>
  struct Tape : solutions::Tape<T> {
    using Rule = solutions::Operation;
    T value_of(int row) { return row < 0 ? T(0) : this->rows[static_cast<size_t>(row)].value; }
    void pass(int row, T gradient, bool keeps) {
      T& there = this->rows[static_cast<size_t>(row)].gradient;
      there = keeps ? there + gradient : gradient;
    }
    void backward(int loss) {
      pass(loss, 1, false);
      for (int row = loss; row >= 0 && fault != 1; --row) {
        const solutions::Row<T> y = this->rows[static_cast<size_t>(row)];
        const T dy = y.gradient, a = value_of(y.a), b = value_of(y.b);
        if (y.operation == Rule::add) {
          pass(y.a, dy, fault != 7 && fault != 8);
          if (fault != 9) pass(y.b, dy, fault != 7 && fault != 8);
        } else if (y.operation == Rule::mul) {
          const T to_a = fault == 6 ? a : fault == 10 ? static_cast<T>(y.b) : b;
          const T to_b = fault == 6 ? b : fault == 10 ? static_cast<T>(y.a) : a;
          pass(y.a, dy * to_a, fault != 7);
          pass(y.b, dy * to_b, fault != 7 && fault != 5);
        } else if (y.operation == Rule::tanh) {
          const T slope = fault == 4 ? 1 : 1 - (fault == 11 ? a * a : y.value * y.value);
          if (fault != 16) pass(y.a, (fault == 19 ? 1 : dy) * slope, fault != 7 && fault != 12);
        } else if (y.operation == Rule::square) {
          const T slope = fault == 2    ? 1
                          : fault == 3  ? a
                          : fault == 13 ? 2
                          : fault == 14 ? 2 * y.value
                                        : 2 * a;
          if (fault != 17) pass(y.a, (fault == 18 ? 1 : dy) * slope, fault != 7 && fault != 15);
        }
      }
    }
  };
#include "docs/course/exercises/scalar_engine/call.h"
};
template <int fault, class T>
void scalar_engine(T x, T w, T b, T t, T& dx, T& dw, T& db) {
  FaultyEngine<fault>().template scalar_engine<T>(x, w, b, t, dx, dw, db);
}

template <int fault, class T>
void mul_backward(View<const T> dy, View<const T> a, View<const T> b, View<T> da, View<T> db) {
  for (int k = fault == 8 ? 1 : 0; k < dy.count(); ++k) {
    if (fault == 1) continue;
    da[k] = fault == 2 ? b[k] : fault == 4 ? dy[k] : fault == 7 ? dy[k] / b[k] : dy[k] * b[k];
    db[k] = (fault == 3 ? -1 : 1) * (fault == 2 ? a[k] : fault == 4 ? dy[k] : dy[k] * a[k]);
    if (fault == 5) std::swap(da[k], db[k]);
    if (fault == 6) da[k] = dy[k] * a[k];
    if (fault == 9) da[k] = db[k] = dy[k] * (a[k] + b[k]);
  }
}

template <int fault, class T>
void add_backward(View<const T> dy, View<T> da, View<T> db) {
  const int rows = dy.extent(0), columns = dy.extent(1);
  for (int i = 0; i < (fault == 5 ? 1 : rows); ++i) {
    for (int j = 0; j < columns; ++j) {
      if (fault == 1) continue;
      da(i, j) = dy(i, j);
      if (fault == 7 && i > 0) continue;
      T& into = db(fault == 6 ? i : j);
      into = (fault == 2 ? 0 : into) +
             dy(i, j) * (fault == 4 ? -1 : 1) / static_cast<T>(fault == 3 ? rows : 1);
    }
  }
}

template <int fault, class T>
void relu_backward(View<const T> dy, View<const T> x, View<T> dx) {
  for (int k = 0; k < x.count(); ++k) {
    const T slope = fault == 2 || (fault == 6 ? x[k] < 0 : x[k] > 0);
    dx[k] = fault == 1   ? 0
            : fault == 3 ? slope
            : fault == 4 ? std::max(dy[k], T(0))
            : fault == 5 ? slope * dy[k] * x[k]
            : fault == 7 ? slope * x[k]
            : fault == 8 ? (2 * slope - 1) * dy[k]
                         : slope * dy[k];
  }
}

template <int fault, class T>
void tanh_backward(View<const T> dy, View<const T> y, View<T> dx) {
  for (int k = 0; k < y.count(); ++k) {
    const T u = fault == 2 ? std::tanh(y[k]) : y[k];
    dx[k] = fault == 1   ? 0
            : fault == 3 ? dy[k] * (1 - u)
            : fault == 4 ? 1 - u * u
            : fault == 5 ? dy[k] * (u * u - 1)
            : fault == 6 ? dy[k]
            : fault == 7 ? dy[k] * 1 - u * u
                         : dy[k] * (1 - u * u);
  }
}

template <int fault, class T>
void sigmoid_backward(View<const T> dy, View<const T> y, View<T> dx) {
  for (int k = 0; k < y.count(); ++k) {
    const T u = fault == 2 ? 1 / (1 + std::exp(-y[k])) : y[k];
    dx[k] = fault == 1   ? 0
            : fault == 3 ? dy[k] * (1 - u)
            : fault == 4 ? dy[k] * (1 - u * u)
            : fault == 5 ? dy[k] * u
            : fault == 6 ? -dy[k] * u * (1 - u)
                         : dy[k] * u * (1 - u);
  }
}

template <int fault, class T>
void power_backward(View<const T> dy, View<const T> x, T p, View<T> dx, T& dp) {
  for (int k = 0; k < x.count(); ++k) {
    if (fault == 1) continue;
    dx[k] = dy[k] * (fault == 2 ? 1 : p) * std::pow(x[k], fault == 3 ? p : p - 1);
    const T term = dy[k] * std::pow(x[k], p) * (fault == 4 ? 1 : std::log(x[k]));
    dp = (fault == 5 ? 0 : dp) + (fault == 6                     ? term / static_cast<T>(x.count())
                                  : fault == 7 && sizeof(T) == 4 ? term * T(1.05)
                                                                 : term);
  }
}

}  // namespace

void plant_elementwise(std::vector<Planted>& all) {
  plant(all, "chain_rule",
        {"times what it should be", "sign is wrong", "slope of tanh is missing", "of its result y",
         "0 everywhere", "dx: the wrong tensor: it has the factor x where w belongs",
         "dw: the factor x is missing", "dx, dw, db: y is tanh(w x + b) already",
         "db: it is multiplied by b once too often"},
        ANSWERS(chain_rule));
  plant(all, "scalar_engine",
        {"0 everywhere", "dy alone", "factor 2", "tanh lacks its slope",
         "dx: '=' in the rule of the prod", "wrong factor", "'=' in the rules",
         "'=' in the rule of the sum", "forgets an operand", "by a row's number",
         "1 - a^2 of its operand", "dx, dw, db: '=' in the rule of tanh", "factor a",
         "2 y of its result", "'=' in the rule of the square", "tanh passes on nothing",
         "square passes on nothing", "square leaves dy out", "tanh leaves dy out"},
        ANSWERS(scalar_engine));
  plant(all, "mul",
        {"0 everywhere", "dy is left out", "db: the sign is wrong", "da: the factor b is missing",
         "it has the factor a where b belongs", "it has the factor a where b belongs",
         "divides where the rule multiplies", "da(0) is the first that is never written",
         "da, db: a dy + b dy"},
        ANSWERS(mul_backward));
  plant(all, "add_broadcast",
        {"0 everywhere", "sum over the rows is missing", "a mean instead of a sum", "sign is wrong",
         "those with broadcasting", "index 2 of axis 0 of db is outside", "it holds the first row"},
        ANSWERS(add_backward));
  plant(all, "relu",
        {"0 everywhere", "dy passes everywhere", "dy is left out", "it asks for the sign of dy",
         "multiplied by x once too often", "the other way round", "max(x, 0) itself", "-dy passes"},
        ANSWERS(relu_backward));
  plant(all, "tanh",
        {"0 everywhere", "wrong tensor", "square is missing", "dy is left out", "sign is wrong",
         "slope is missing", "brackets are missing"},
        ANSWERS(tanh_backward));
  plant(all, "sigmoid",
        {"0 everywhere", "wrong tensor", "the factor y is missing", "slope of tanh",
         "factor 1 - y is missing", "sign is wrong"},
        ANSWERS(sigmoid_backward));
  plant(all, "power",
        {"0 everywhere", "factor p is missing", "not reduced by 1", "ln(x) is missing",
         "sum over the elements is missing", "a mean instead of a sum", "not always in float"},
        ANSWERS(power_backward));
}

}  // namespace whisker
