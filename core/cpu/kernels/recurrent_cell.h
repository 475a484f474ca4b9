// One recurrent cell over all steps: gemms, and loops over the hidden units of one step of one
// sequence. Gates are blocks of `hidden` elements (docs/internals/recurrent.md). Sequences are
// independent, so a thread computes all steps of some of them without waiting.
#pragma once

#include "core/backend/kernel_workspace.h"
#include "core/backend/recurrent_operands.h"
#include "core/cpu/onednn/gemm.h"
#include "core/cpu/support/allocator.h"

#include <cstdint>
#include <functional>

namespace whisker::cpu {

/// From one row to the next of a cell's own matrices. Rows a power of two apart share few sets of
/// the cache: gemms on them took up to 2.3 times as long (oneDNN with AVX2, hidden 512).
inline int64_t padded_row(int64_t columns) {
  return columns + 16;
}
/// From here on a copy of W_hh with padded rows pays.
inline constexpr int64_t steps_worth_copying = 4;

/// Operands and saved state of a cell; row t N + n is step t of sequence n; null where absent.
struct CellMemory {
  const float* x = nullptr;  // (T N, inputs)
  int64_t inputs = 0;
  BasicRecurrentParameters<float*> p;
  const float* h0 = nullptr;         // (N, output); null: zeros
  const float* c0 = nullptr;         // (N, hidden); null: zeros
  const int64_t* lengths = nullptr;  // (N)
  float* gates = nullptr;            // (T N, gates hidden), after their functions
  float* side = nullptr;             // (T N, hidden): an lstm's c, a gru's last block of W_hh h
  float* m = nullptr;                // (T N, hidden): what a projection reads
  float* y = nullptr;                // this direction's columns of (T N, directions output)
};

/// The order of steps in one direction, for both passes.
class CellSteps {
 public:
  CellSteps(const RecurrentGeometry& g, int64_t direction, const int64_t* lengths)
      : g_(g), backwards_(direction == 1), lengths_(lengths) {}

  int64_t length(int64_t n) const { return lengths_ ? lengths_[n] : g_.steps; }
  bool valid(int64_t t, int64_t n) const { return t < length(n); }
  /// Steps that some of the sequences [begin, end) have.
  int64_t longest(int64_t begin, int64_t end) const;
  /// The i-th of `count` steps.
  int64_t step(int64_t i, int64_t count) const { return backwards_ ? count - 1 - i : i; }
  /// The step before t in this direction, for sequence n; -1: the initial state.
  int64_t before(int64_t t, int64_t n) const {
    if (!backwards_) return t - 1;
    return t + 1 < length(n) ? t + 1 : -1;
  }
  bool backwards() const { return backwards_; }

 private:
  const RecurrentGeometry& g_;
  bool backwards_;
  const int64_t* lengths_;
};

/// Elements that a cell works in, part by part: see the members of CellForward.
struct CellForwardScratch {
  explicit CellForwardScratch(const RecurrentGeometry& g);
  int64_t elements() const { return w_hh_t + bias + projected; }

  int64_t w_hh_t, bias, projected;
};

class CellForward {
 public:
  /// h (N, output) and c (N, hidden; lstm only, else null) hold the running states, at the end the
  /// last ones. `large_gemm` computes W_ih x over all steps.
  CellForward(Allocator& allocator, const std::function<void(const Gemm&)>& large_gemm,
              const RecurrentGeometry& g, int64_t direction, const CellMemory& memory, float* h,
              float* c);
  /// Sequences [begin, end) through all steps. Different ranges may run at once.
  void run(int64_t begin, int64_t end);

 private:
  void step_gemms(int64_t t, int64_t begin, int64_t end);
  void row(int64_t t, int64_t n);
  void project(int64_t t, int64_t begin, int64_t end);
  void leave_nothing(int64_t t, int64_t n);
  float* gates(int64_t t, int64_t n) const {
    return m_.gates + (t * g_.batch + n) * g_.gates() * g_.hidden;
  }
  float* result(int64_t t, int64_t n) const {
    return m_.y + (t * g_.batch + n) * g_.directions * g_.output();
  }

  const RecurrentGeometry& g_;
  CellSteps steps_;
  CellMemory m_;
  float *h_, *c_;
  CellForwardScratch sizes_;
  bool transposed_;           // w_hh_t_ is used: worth its copy for many steps
  Scratch<float> w_hh_t_;     // (output, gates hidden), rows padded
  Scratch<float> bias_;       // (gates hidden) of both gemms, then (hidden) zeros or gru's b_hn
  Scratch<float> projected_;  // (N, projection)
};

/// Gradients of one cell; each is computed when not null.
struct CellGradients {
  const float* dy = nullptr;  // this direction's columns of (T N, directions output), or null
  float* dx = nullptr;        // (T N, inputs)
  bool add_dx = false;        // dx += instead of dx =
  BasicRecurrentParameters<float*> p;
};

/// Elements that a cell works in, part by part: see the members of CellBackward.
struct CellBackwardScratch {
  explicit CellBackwardScratch(const RecurrentGeometry& g);
  int64_t elements() const { return w_hh + dgates + drecurred + dresult + dm + zeros; }

  int64_t w_hh, dgates, drecurred, dresult, dm, zeros;
};

class CellBackward {
 public:
  /// dh (N, output) and dc (N, hidden): gradients of the last states, at the end of the initial
  /// ones. Rows of memory.x after a sequence's end must be finite. `large_gemm` computes the gemms
  /// of finish().
  CellBackward(Allocator& allocator, const std::function<void(const Gemm&)>& large_gemm,
               const RecurrentGeometry& g, int64_t direction, const CellMemory& memory,
               const CellGradients& gradients, float* dh, float* dc);
  /// Sequences [begin, end) back through all steps. Different ranges may run at once.
  void run(int64_t begin, int64_t end);
  /// After all have run: the gradients of x and of the parameters, as gemms over all steps.
  void finish();

 private:
  void row(int64_t t, int64_t n);
  void step_gemms(int64_t t, int64_t begin, int64_t end);
  void leave_nothing(int64_t t, int64_t n);
  void recurrent_weights();
  void add_initial_state();
  void biases();
  int64_t row_of(int64_t t, int64_t n) const { return t * g_.batch + n; }
  int64_t gate_rows() const { return g_.gates() * g_.hidden; }
  int64_t gate_stride() const { return padded_row(gate_rows()); }
  float* dgates_row(int64_t t, int64_t n) const {
    return dgates_.data() + row_of(t, n) * gate_stride();
  }
  bool is_gru() const { return g_.kind == RecurrentKind::gru; }
  float* drecurred(int64_t t, int64_t n) const {
    return is_gru() ? drecurred_.data() + row_of(t, n) * g_.hidden : nullptr;
  }
  // w_hh: the gradients by W_hh h, transposed, times h (rows, output); added unless `first`.
  void add_outer(const float* dgates, const float* drecurred, const float* h, int64_t stride,
                 int64_t rows, bool first);

  Allocator& allocator_;
  const std::function<void(const Gemm&)>& gemm_;
  const RecurrentGeometry& g_;
  CellSteps steps_;
  CellMemory m_;
  CellGradients d_;
  float *dh_, *dc_;
  CellBackwardScratch sizes_;
  bool copied_;               // w_hh_ is used
  Scratch<float> w_hh_;       // (gates hidden, output), rows padded
  Scratch<float> dgates_;     // (T N, gates hidden), rows padded with zeros, by W_ih x
  Scratch<float> drecurred_;  // gru: (T N, hidden), by the last block of W_hh h
  Scratch<float> dresult_;    // with a projection (T N, projection): by h
  Scratch<float> dm_;         // (N, hidden), by the result before a projection
  Scratch<float> zeros_;      // (the larger of hidden and output)
};

/// What the passes of a layer allocate for themselves, worked out from shapes: see
/// RecurrentKernels::training_workspace(); `large_gemm_bytes` is what a gemm over all steps takes.
KernelWorkspace recurrent_workspace(const RecurrentGeometry& g, bool dy, bool dx, bool dw,
                                    const std::function<int64_t(const Gemm&)>& large_gemm_bytes);

}  // namespace whisker::cpu
