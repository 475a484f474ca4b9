// Recurrent layers, one sequence after the other (docs/internals/recurrent.md). Everything is
// double from operands to results, and backward runs forward again: nothing is reserved.
#include "core/backend/recurrent.h"

#include "core/backend/dropout_mask.h"
#include "core/reference/recurrent_cell.h"
#include "core/reference/reference_kernels.h"

#include <algorithm>
#include <vector>

namespace whisker::reference {
namespace {

// A whole call: the operands in double, and what each layer read.
class Network {
 public:
  Network(const RecurrentGeometry& g, const RecurrentInputs& in)
      : g_(g), key_(resolved(in.key)), lengths_(elements<int64_t>(in.lengths)) {
    for (const RecurrentParameters& p : in.parameters) parameters_.push_back(CellValues::of(p));
    h_ = state(in.initial.h, g.output());
    c_ = state(in.initial.c, g.hidden);
    layer_input_.push_back(in.x.defined() ? read(in.x) : Values(size(g.features)));
  }

  // y, and the last states into h and c.
  Values forward(Values& h, Values& c) {
    Values y;
    h = h_;
    c = c_;
    for (int64_t layer = 0; layer < g_.layers; ++layer) {
      if (layer > 0) layer_input_.push_back(dropped(y, layer - 1));
      y.assign(size(g_.directions * g_.output()), 0.0);
      for_each_run(layer, [&](int64_t cell, int64_t n, CellRun& run) {
        for (int64_t i = 0; i < length(n); ++i) {
          const int64_t t = cell % g_.directions == 0 ? i : length(n) - 1 - i;
          run.forward(t, input(layer, t, n));
          std::copy(run.last().h.begin(), run.last().h.end(), result(y, cell, t, n));
        }
        std::copy(run.last().h.begin(), run.last().h.end(), of(h, cell, n, g_.output()));
        std::copy(run.last().c.begin(), run.last().c.end(), of(c, cell, n, g_.hidden));
      });
    }
    return y;
  }

  // Gradients of x, initial states and parameters from those of y and of the last states.
  void backward(const RecurrentGradients& gradients) {
    Values h, c;
    forward(h, c);
    Values dy = gradients.dy.defined() ? read(gradients.dy) : Values(size(width()));
    Values dh = state(gradients.dlast.h, g_.output());
    Values dc = state(gradients.dlast.c, g_.hidden);
    std::vector<CellValues> dparameters;
    for (const CellValues& p : parameters_) dparameters.push_back(p.zeros());
    for (int64_t layer = g_.layers - 1; layer >= 0; --layer) {
      Values dx(size(g_.inputs(layer)));
      for_each_run(layer, [&](int64_t cell, int64_t n, CellRun& run) {
        for (int64_t i = 0; i < length(n); ++i) {
          const int64_t t = cell % g_.directions == 0 ? i : length(n) - 1 - i;
          run.forward(t, input(layer, t, n));
        }
        double* dh_cell = of(dh, cell, n, g_.output());
        double* dc_cell = of(dc, cell, n, g_.hidden);
        Values dstate(dh_cell, dh_cell + g_.output());
        Values dcell(dc_cell, dc_cell + g_.hidden);
        while (!run.empty()) {
          const int64_t t = run.last().t;
          const double* arrived = result(dy, cell, t, n);
          for (size_t j = 0; j < dstate.size(); ++j) dstate[j] += arrived[j];
          const int64_t at = (t * g_.batch + n) * g_.inputs(layer);
          run.backward(input(layer, t, n), dstate, dcell, dx.data() + at,
                       dparameters[static_cast<size_t>(cell)]);
        }
        std::copy(dstate.begin(), dstate.end(), dh_cell);
        std::copy(dcell.begin(), dcell.end(), dc_cell);
      });
      dy = layer > 0 ? dropped(dx, layer - 1) : std::move(dx);
    }
    write(dy, gradients.dx);
    write(dh, gradients.dinitial.h);
    write(dc, gradients.dinitial.c);
    for (size_t cell = 0; cell < dparameters.size(); ++cell) {
      const RecurrentParameters& d = gradients.dparameters[cell];
      write(dparameters[cell].w_ih, d.w_ih);
      write(dparameters[cell].w_hh, d.w_hh);
      write(dparameters[cell].b_ih, d.b_ih);
      write(dparameters[cell].b_hh, d.b_hh);
      write(dparameters[cell].w_hr, d.w_hr);
    }
  }

 private:
  int64_t width() const { return g_.directions * g_.output(); }
  size_t size(int64_t extent) const { return static_cast<size_t>(g_.steps * g_.batch * extent); }
  int64_t length(int64_t n) const { return lengths_ ? lengths_[n] : g_.steps; }
  Values state(const Tensor& x, int64_t extent) const {
    return x.defined() ? read(x) : Values(static_cast<size_t>(g_.cells() * g_.batch * extent));
  }
  double* of(Values& state, int64_t cell, int64_t n, int64_t extent) const {
    return state.data() + (cell * g_.batch + n) * extent;
  }
  double* result(Values& y, int64_t cell, int64_t t, int64_t n) const {
    return y.data() + (t * g_.batch + n) * width() + cell % g_.directions * g_.output();
  }
  const double* input(int64_t layer, int64_t t, int64_t n) const {
    return layer_input_[static_cast<size_t>(layer)].data() + (t * g_.batch + n) * g_.inputs(layer);
  }

  // The mask on the result of `layer`, or on its gradient.
  Values dropped(Values y, int64_t layer) const {
    if (g_.dropout == 0) return y;
    const RandomKey key = recurrent_mask_key(key_, layer);
    const uint64_t threshold = dropout_threshold(g_.dropout);
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = dropout_keeps(key, i, threshold) ? y[i] / (1 - g_.dropout) : 0;
    }
    return y;
  }

  template <class Fn>
  void for_each_run(int64_t layer, Fn&& fn) {
    for (int64_t cell = layer * g_.directions; cell < (layer + 1) * g_.directions; ++cell) {
      for (int64_t n = 0; n < g_.batch; ++n) {
        CellRun run(g_, parameters_[static_cast<size_t>(cell)], g_.inputs(layer),
                    of(h_, cell, n, g_.output()), of(c_, cell, n, g_.hidden));
        fn(cell, n, run);
      }
    }
  }

  const RecurrentGeometry& g_;
  RandomKey key_;
  const int64_t* lengths_;  // (N) or null
  std::vector<CellValues> parameters_;
  Values h_, c_;
  std::vector<Values> layer_input_;  // per layer (T, N, inputs)
};

class Recurrent final : public RecurrentKernels {
 public:
  int64_t reserve_bytes(const RecurrentGeometry&) override { return 0; }
  void forward(const RecurrentGeometry& g, const RecurrentInputs& in,
               const RecurrentOutputs& out) override {
    Values h, c;
    write(Network(g, in).forward(h, c), out.y);
    write(h, out.last.h);
    write(c, out.last.c);
  }
  void backward(const RecurrentGeometry& g, const RecurrentInputs& in, const RecurrentOutputs&,
                const RecurrentGradients& gradients) override {
    Network(g, in).backward(gradients);
  }
};

}  // namespace

std::shared_ptr<RecurrentKernels> make_recurrent() {
  return std::make_shared<Recurrent>();
}

}  // namespace whisker::reference
