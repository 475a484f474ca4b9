// All steps of recurrent cells backward: see Note [Persistent recurrence]. From what forward saved
// to the gradients of the gates' pre-activations. The gradients of weights and of x, gemms over all
// steps, follow (persistent_layers.cpp).
#include "core/cuda/recurrent/persistent/persistent_recurrent.cuh"

namespace whisker::cuda {
namespace {

// The block's columns of a weight matrix (k, hidden), laid out for load_weights().
template <class T, int U>
__device__ void keep_columns(const T* w, int k, int hidden, int first_unit, T* kept) {
  constexpr int tiles = U / 8;
  for (int i = static_cast<int>(threadIdx.x); i < k * U; i += persistent_threads) {
    const int row = i / U, column = i % U;
    const int lane = column % 8 * 4 + row % chunk_k / 8;
    kept[weight_index<T>(row / chunk_k, column / 8, tiles, lane, row % 8)] =
        mma_operand(w[int64_t{row} * hidden + first_unit + column]);
  }
}

// Inputs and results of one step of one unit.
template <Gating gating>
struct UnitStep {
  float gate[4];                                       // saved by forward
  float c, c_before;                                   // of an lstm
  float y, h_before;                                   // of a plain cell, of a gru
  float dgx[gates_of<gating>], dgh[gates_of<gating>];  // of the sums

  // From dh; the gradients of the previous state go to h and c.
  __device__ void backward(float dh, float& carried_h, float& carried_c, bool relu) {
    if constexpr (gating == Gating::lstm) {
      const float i = gate[0], f = gate[1], g = gate[2], o = gate[3];
      const float squashed = tanhf(c);
      const float dc = carried_c + dh * o * (1 - squashed * squashed);
      dgx[0] = dc * g * i * (1 - i);
      dgx[1] = dc * c_before * f * (1 - f);
      dgx[2] = dc * i * (1 - g * g);
      dgx[3] = dh * squashed * o * (1 - o);
      carried_c = dc * f;
      carried_h = 0;
    } else if constexpr (gating == Gating::gru) {
      const float r = gate[0], z = gate[1], n = gate[2];
      dgx[2] = dh * (1 - z) * (1 - n * n);
      dgx[1] = dh * (h_before - n) * z * (1 - z);
      dgx[0] = dgx[2] * gate[3] * r * (1 - r);
      dgh[0] = dgx[0];
      dgh[1] = dgx[1];
      dgh[2] = dgx[2] * r;
      carried_h = dh * z;
    } else {
      dgx[0] = relu ? (y <= 0 ? 0 : dh) : dh * (1 - y * y);
      carried_h = 0;
    }
  }
  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < gates_of<gating>; ++i) dgx[i] = dgh[i] = 0;
  }
};

// Grid: cells x tiles of sequences x slices of units.
template <class T, Gating gating, int M, int U>
__global__ __launch_bounds__(persistent_threads, 1) void backward_kernel(PersistentArguments p) {
#if __CUDA_ARCH__ >= 900
  constexpr int gates = gates_of<gating>, tiles = U / 8;
  extern __shared__ uint4 shared[];
  const Slice<M, U> own(p.batch, p.hidden);
  const PersistentCell& cell = p.cells[own.cell];
  const int k = gates * p.hidden;

  T* const w_hh = reinterpret_cast<T*>(shared);
  T* const w_above = w_hh + int64_t{k} * U;
  const PartialSums<M, tiles> partials{
      reinterpret_cast<float*>(cell.above ? w_above + int64_t{k} * U : w_above)};
  keep_columns<T, U>(static_cast<const T*>(cell.w_hh), k, p.hidden, own.first_unit, w_hh);
  const T* dgx_above = nullptr;
  if (cell.above) {
    const PersistentCell& above = p.cells[own.cell + 1];
    keep_columns<T, U>(static_cast<const T*>(above.w_ih), k, p.hidden, own.first_unit, w_above);
    dgx_above = static_cast<const T*>(above.dgx);
  }
  const uint32_t* const flag_above =
      cell.above ? own.flag(p.flags, own.cell + 1, p.batch) : nullptr;
  uint32_t* const flag = own.flag(p.flags, own.cell, p.batch);

  const int64_t state_at = int64_t{own.row} * p.hidden + own.unit;
  float2 carried_h = make_float2(0, 0), carried_c = make_float2(0, 0);
  int length = p.steps;
  if (own.owner) {
    if (cell.dh_last) carried_h = load_pair(static_cast<const T*>(cell.dh_last) + state_at);
    if (cell.dc_last) carried_c = load_pair(static_cast<const T*>(cell.dc_last) + state_at);
    if (p.lengths) length = length_of(p, own.row);
  }
  T* const dgx = static_cast<T*>(cell.dgx);
  T* const dgh = static_cast<T*>(cell.dgh);
  const auto row_of_tile = [&](int step) { return (int64_t{step} * p.batch + own.first_row) * k; };
  // dgh W_hh of the following step (in forward's order).
  const auto multiply_own = [&](float(&acc)[M][tiles][4], int turns) {
    await(flag, static_cast<uint32_t>(turns * own.tiles));
    const int s = p.steps - turns;
    multiply_partial<T, M, tiles>(acc, dgh + row_of_tile(cell.reverse ? p.steps - 1 - s : s), k,
                                  own.valid, k, w_hh, [](int tile) { return tile; });
  };
  __syncthreads();

  for (int turn = 0; turn < p.steps; ++turn) {
    const int s = p.steps - 1 - turn;  // the step in forward's order
    const int step = cell.reverse ? turn : s;
    const int before = cell.reverse ? step + 1 : step - 1;
    const int64_t at = int64_t{step} * p.batch + own.row;
    const int64_t at_before = int64_t{before} * p.batch + own.row;
    const bool inside = own.owner && step < length;
    UnitStep<gating> a, b;
    float2 dh = make_float2(0, 0);
    if (inside) {
      if (cell.dy) dh = load_pair(static_cast<const T*>(cell.dy) + at * p.y_stride + own.unit);
      if constexpr (gating != Gating::plain) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float2 gate =
              load_pair(static_cast<const T*>(cell.gates) + (at * 4 + i) * p.hidden + own.unit);
          a.gate[i] = gate.x;
          b.gate[i] = gate.y;
        }
      }
      float2 state = make_float2(0, 0);  // before the step
      if constexpr (gating == Gating::lstm) {
        const float2 c = load_pair(cell.c + at * p.hidden + own.unit);
        if (s > 0) {
          state = load_pair(cell.c + at_before * p.hidden + own.unit);
        } else if (cell.c0) {
          state = load_pair(static_cast<const T*>(cell.c0) + state_at);
        }
        a.c = c.x;
        b.c = c.y;
        a.c_before = state.x;
        b.c_before = state.y;
      } else if constexpr (gating == Gating::gru) {
        if (s > 0) {
          state = load_pair(static_cast<const T*>(cell.y) + at_before * p.y_stride + own.unit);
        } else if (cell.h0) {
          state = load_pair(static_cast<const T*>(cell.h0) + state_at);
        }
        a.h_before = state.x;
        b.h_before = state.y;
      } else {
        const float2 y = load_pair(static_cast<const T*>(cell.y) + at * p.y_stride + own.unit);
        a.y = y.x;
        b.y = y.y;
      }
    }
    float acc[M][tiles][4] = {};
    if (cell.above) {
      await(flag_above, static_cast<uint32_t>((turn + 1) * own.tiles));
      multiply_partial<T, M, tiles>(acc, dgx_above + row_of_tile(step), k, own.valid, k, w_above,
                                    [](int tile) { return tile; });
    }
    if (turn > 0) multiply_own(acc, turn);
    partials.put(acc);
    __syncthreads();
    if (own.owner) {
      const float2 sum = partials.sum(own.local_row, own.local_unit);
      carried_h.x += sum.x;
      carried_h.y += sum.y;
      if (inside) {
        a.backward(carried_h.x + dh.x, carried_h.x, carried_c.x, p.relu);
        b.backward(carried_h.y + dh.y, carried_h.y, carried_c.y, p.relu);
      } else {
        a.clear();
        b.clear();
      }
#pragma unroll
      for (int gate = 0; gate < gates; ++gate) {
        const int64_t to = (at * gates + gate) * p.hidden + own.unit;
        store_pair(dgx + to, make_float2(a.dgx[gate], b.dgx[gate]));
        if constexpr (gating == Gating::gru) {
          store_pair(dgh + to, make_float2(a.dgh[gate], b.dgh[gate]));
        }
      }
    }
    arrive(flag);  // and partials may be overwritten
  }

  if (cell.dh0) {
    float acc[M][tiles][4] = {};
    multiply_own(acc, p.steps);
    partials.put(acc);
    __syncthreads();
    if (own.owner) {
      const float2 sum = partials.sum(own.local_row, own.local_unit);
      store_pair(static_cast<T*>(cell.dh0) + state_at,
                 make_float2(carried_h.x + sum.x, carried_h.y + sum.y));
    }
  }
  if (cell.dc0 && own.owner) store_pair(static_cast<T*>(cell.dc0) + state_at, carried_c);
#else  // not launched: see persistent_kernels_compiled()
  __trap();
#endif
}

}  // namespace

void persistent_backward(const PersistentLaunch& launch, std::span<const PersistentCell> cells) {
  const bool stacked = std::ranges::any_of(cells, &PersistentCell::above);
  launch_persistent(
      launch, cells, persistent_backward_bytes(launch.geometry, launch.tiling, stacked),
      [&]<class T, Gating gating, int M, int U> { return &backward_kernel<T, gating, M, U>; });
}

}  // namespace whisker::cuda
