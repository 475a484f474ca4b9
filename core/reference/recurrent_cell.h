// One recurrent cell on one sequence, step by step, in double: docs/internals/recurrent.md line by
// line.
#pragma once

#include "core/backend/recurrent_operands.h"
#include "core/reference/activation_functions.h"
#include "core/reference/loops.h"

#include <cmath>
#include <utility>
#include <vector>

namespace whisker::reference {

using Values = std::vector<double>;

inline Values read(const Tensor& x) {
  Values values(x.defined() ? static_cast<size_t>(x.count()) : 0);
  visit_real("recurrent", x.defined() ? x.dtype() : DType::f32, [&]<class T>() {
    for (size_t i = 0; i < values.size(); ++i) values[i] = elements<T>(x)[i];
  });
  return values;
}

inline void write(const Values& values, const Tensor& y) {
  if (!y.defined()) return;
  visit_real("recurrent", y.dtype(), [&]<class T>() {
    for (size_t i = 0; i < values.size(); ++i) elements<T>(y)[i] = convert<T>(values[i]);
  });
}

// y (rows) += w (rows, columns) x (columns)
inline void add_gemm(const Values& w, const double* x, double* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) y[r] += w[static_cast<size_t>(r * columns + c)] * x[c];
  }
}

// x (columns) += w^T y
inline void add_transposed(const Values& w, const double* y, double* x, int64_t rows,
                           int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) x[c] += w[static_cast<size_t>(r * columns + c)] * y[r];
  }
}

// w (rows, columns) += y x^T
inline void add_outer(const double* y, const double* x, Values& w, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) w[static_cast<size_t>(r * columns + c)] += y[r] * x[c];
  }
}

// A cell's parameters, or their gradients.
struct CellValues {
  Values w_ih, w_hh, b_ih, b_hh, w_hr;

  static CellValues of(const RecurrentParameters& p) {
    return {read(p.w_ih), read(p.w_hh), read(p.b_ih), read(p.b_hh), read(p.w_hr)};
  }
  CellValues zeros() const {
    return {Values(w_ih.size()), Values(w_hh.size()), Values(b_ih.size()), Values(b_hh.size()),
            Values(w_hr.size())};
  }
};

// What one step of one sequence computes.
struct Step {
  int64_t t = 0;
  Values gate = {};      // (gates hidden), after their functions
  Values recurred = {};  // gru (hidden): W_hn h + b_hn
  Values c = {};         // lstm (hidden)
  Values m = {};         // (hidden): the result before a projection
  Values h = {};         // (output)
};

// One cell on one sequence.
class CellRun {
 public:
  CellRun(const RecurrentGeometry& g, const CellValues& p, int64_t inputs, const double* h0,
          const double* c0)
      : g_(g), p_(p), inputs_(inputs) {
    before_.h.assign(h0, h0 + g.output());
    if (g.is_lstm()) before_.c.assign(c0, c0 + g.hidden);
  }

  void forward(int64_t t, const double* x) {
    const Step& previous = last();
    const int64_t rows = g_.gates() * g_.hidden;
    const size_t hidden = static_cast<size_t>(g_.hidden);
    Values input(static_cast<size_t>(rows));     // W_ih x + b_ih
    Values recurred(static_cast<size_t>(rows));  // W_hh h + b_hh
    if (g_.bias) input = p_.b_ih, recurred = p_.b_hh;
    add_gemm(p_.w_ih, x, input.data(), rows, inputs_);
    add_gemm(p_.w_hh, previous.h.data(), recurred.data(), rows, g_.output());
    Step step{.t = t, .gate = Values(input.size()), .m = Values(hidden)};
    for (size_t j = 0; j < hidden; ++j) {
      const auto z = [&](size_t gate) {
        return input[gate * hidden + j] + recurred[gate * hidden + j];
      };
      const auto gate = [&](size_t i) -> double& { return step.gate[i * hidden + j]; };
      switch (g_.kind) {
        case RecurrentKind::rnn_tanh:
          step.m[j] = gate(0) = std::tanh(z(0));
          break;
        case RecurrentKind::rnn_relu:
          step.m[j] = gate(0) = z(0) < 0 ? 0 : z(0);
          break;
        case RecurrentKind::lstm:
          step.c.resize(hidden);
          gate(0) = sigmoid_of(z(0));
          gate(1) = sigmoid_of(z(1));
          gate(2) = std::tanh(z(2));
          gate(3) = sigmoid_of(z(3));
          step.c[j] = gate(1) * previous.c[j] + gate(0) * gate(2);
          step.m[j] = gate(3) * std::tanh(step.c[j]);
          break;
        case RecurrentKind::gru:
          gate(0) = sigmoid_of(z(0));
          gate(1) = sigmoid_of(z(1));
          step.recurred.push_back(recurred[2 * hidden + j]);
          gate(2) = std::tanh(input[2 * hidden + j] + gate(0) * step.recurred[j]);
          step.m[j] = (1 - gate(1)) * gate(2) + gate(1) * previous.h[j];
          break;
      }
    }
    step.h = step.m;
    if (g_.projection > 0) {
      step.h.assign(static_cast<size_t>(g_.projection), 0.0);
      add_gemm(p_.w_hr, step.m.data(), step.h.data(), g_.projection, g_.hidden);
    }
    steps_.push_back(std::move(step));
  }

  // The youngest step that has not been walked back: h and c after it.
  const Step& last() const { return steps_.empty() ? before_ : steps_.back(); }
  bool empty() const { return steps_.empty(); }

  // Walks back the last step: dh and dc arrive for its state and leave for the state before it.
  void backward(const double* x, Values& dh, Values& dc, double* dx, CellValues& dp) {
    const Step step = std::move(steps_.back());
    steps_.pop_back();
    const Step& previous = last();
    const int64_t rows = g_.gates() * g_.hidden;
    const size_t hidden = static_cast<size_t>(g_.hidden);
    Values dm = dh;
    if (g_.projection > 0) {
      dm.assign(hidden, 0.0);
      add_outer(dh.data(), step.m.data(), dp.w_hr, g_.projection, g_.hidden);
      add_transposed(p_.w_hr, dh.data(), dm.data(), g_.projection, g_.hidden);
    }
    Values dinput(static_cast<size_t>(rows));     // by W_ih x + b_ih
    Values drecurred(static_cast<size_t>(rows));  // by W_hh h + b_hh
    Values dprevious(static_cast<size_t>(g_.output()));
    for (size_t j = 0; j < hidden; ++j) {
      const auto gate = [&](size_t i) { return step.gate[i * hidden + j]; };
      const auto leave = [&](size_t i, double dz) {
        dinput[i * hidden + j] = drecurred[i * hidden + j] = dz;
      };
      switch (g_.kind) {
        case RecurrentKind::rnn_tanh:
          leave(0, dm[j] * (1 - gate(0) * gate(0)));
          break;
        case RecurrentKind::rnn_relu:
          leave(0, gate(0) <= 0 ? 0 : dm[j]);  // Note [relu's gradient and NaN]
          break;
        case RecurrentKind::lstm: {
          const double squashed = std::tanh(step.c[j]);
          const double dcell = dc[j] + dm[j] * gate(3) * (1 - squashed * squashed);
          leave(0, dcell * gate(2) * gate(0) * (1 - gate(0)));
          leave(1, dcell * previous.c[j] * gate(1) * (1 - gate(1)));
          leave(2, dcell * gate(0) * (1 - gate(2) * gate(2)));
          leave(3, dm[j] * squashed * gate(3) * (1 - gate(3)));
          dc[j] = dcell * gate(1);
          break;
        }
        case RecurrentKind::gru: {
          const double dn = dm[j] * (1 - gate(1)) * (1 - gate(2) * gate(2));
          leave(0, dn * step.recurred[j] * gate(0) * (1 - gate(0)));
          leave(1, dm[j] * (previous.h[j] - gate(2)) * gate(1) * (1 - gate(1)));
          leave(2, dn);
          drecurred[2 * hidden + j] = dn * gate(0);
          dprevious[j] = dm[j] * gate(1);
          break;
        }
      }
    }
    add_outer(dinput.data(), x, dp.w_ih, rows, inputs_);
    add_outer(drecurred.data(), previous.h.data(), dp.w_hh, rows, g_.output());
    for (size_t i = 0; i < dp.b_ih.size(); ++i) {
      dp.b_ih[i] += dinput[i];
      dp.b_hh[i] += drecurred[i];
    }
    add_transposed(p_.w_ih, dinput.data(), dx, rows, inputs_);
    add_transposed(p_.w_hh, drecurred.data(), dprevious.data(), rows, g_.output());
    dh = std::move(dprevious);
  }

 private:
  const RecurrentGeometry& g_;
  const CellValues& p_;
  int64_t inputs_;
  Step before_;
  std::vector<Step> steps_;
};

}  // namespace whisker::reference
