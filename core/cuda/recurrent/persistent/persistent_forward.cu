// All steps of recurrent cells forward: see Note [Persistent recurrence]. One thread computes two
// neighbouring units of one sequence for all steps, with their states in f32 registers.
#include "core/cuda/recurrent/persistent/persistent_recurrent.cuh"

namespace whisker::cuda {
namespace {

// Sums per unit: one for each gate; a gru keeps W_in x separate, since its reset gate multiplies
// only W_hn h.
template <Gating gating>
constexpr int blocks_of = gating == Gating::gru ? 4 : gates_of<gating>;

// The block's rows of a weight matrix (gates hidden, hidden), laid out for load_weights().
template <class T, Gating gating, int U>
__device__ void keep_weights(const T* w, int hidden, int first_unit, T* kept) {
  constexpr int tiles = gates_of<gating> * U / 8;
  const int items = hidden / chunk_k * tiles * 32;
  for (int i = static_cast<int>(threadIdx.x); i < items; i += persistent_threads) {
    const int lane = i % 32, tile = i / 32 % tiles, chunk = i / 32 / tiles;
    const int column = tile * 8 + lane / 4;
    const int64_t row = int64_t{column / U} * hidden + first_unit + column % U;
    const T* const from = w + row * hidden + chunk * chunk_k + lane % 4 * 8;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      kept[weight_index<T>(chunk, tile, tiles, lane, e)] = mma_operand(from[e]);
    }
  }
}

template <class T>
__device__ void add_pair(float2& sum, const void* from, int64_t at) {
  const float2 term = load_pair(static_cast<const T*>(from) + at);
  sum.x += term.x;
  sum.y += term.y;
}

// One step of one unit: reads pre-activations z, updates the states, leaves in z what backward
// needs.
template <Gating gating>
__device__ void step_cell(float (&z)[blocks_of<gating>], float& h, float& c, bool relu) {
  if constexpr (gating == Gating::lstm) {
    z[0] = logistic(z[0]);
    z[1] = logistic(z[1]);
    z[2] = tanhf(z[2]);
    z[3] = logistic(z[3]);
    c = z[1] * c + z[0] * z[2];
    h = z[3] * tanhf(c);
  } else if constexpr (gating == Gating::gru) {
    z[0] = logistic(z[0]);
    z[1] = logistic(z[1]);
    const float candidate = tanhf(z[3] + z[0] * z[2]);
    z[3] = z[2];
    z[2] = candidate;
    h = (1 - z[1]) * candidate + z[1] * h;
  } else {
    h = !relu ? tanhf(z[0]) : z[0] < 0 ? 0 : z[0];  // keeps NaN
  }
}

// Grid: cells x tiles of sequences x slices of units.
template <class T, Gating gating, int M, int U>
__global__ __launch_bounds__(persistent_threads, 1) void forward_kernel(PersistentArguments p) {
#if __CUDA_ARCH__ >= 900
  constexpr int gates = gates_of<gating>, blocks = blocks_of<gating>;
  constexpr int tiles = gates * U / 8, sums = blocks * U / 8;
  extern __shared__ uint4 shared[];
  const Slice<M, U> own(p.batch, p.hidden);
  const PersistentCell& cell = p.cells[own.cell];
  const bool stacked = cell.w_ih != nullptr;

  T* const w_hh = reinterpret_cast<T*>(shared);
  T* const w_ih = w_hh + int64_t{gates} * U * p.hidden;
  const PartialSums<M, sums> partials{
      reinterpret_cast<float*>(stacked ? w_ih + (w_ih - w_hh) : w_ih)};
  keep_weights<T, gating, U>(static_cast<const T*>(cell.w_hh), p.hidden, own.first_unit, w_hh);
  if (stacked) {
    keep_weights<T, gating, U>(static_cast<const T*>(cell.w_ih), p.hidden, own.first_unit, w_ih);
  }

  const int64_t state_at = int64_t{own.row} * p.hidden + own.unit;
  float2 bias[blocks] = {};
  float2 h = make_float2(0, 0), c = make_float2(0, 0);
  int length = p.steps;
  if (own.owner) {
#pragma unroll
    for (int gate = 0; gate < gates; ++gate) {
      const int64_t at = int64_t{gate} * p.hidden + own.unit;
      if (cell.b_hh) add_pair<T>(bias[gate], cell.b_hh, at);
      if (cell.b_ih && stacked) {
        add_pair<T>(bias[gating == Gating::gru && gate == 2 ? 3 : gate], cell.b_ih, at);
      }
    }
    if (cell.h0) add_pair<T>(h, cell.h0, state_at);
    if (cell.c0) add_pair<T>(c, cell.c0, state_at);
    if (p.lengths) length = length_of(p, own.row);
  }
  const T* const below = stacked ? static_cast<const T*>(p.cells[own.cell - 1].y) : nullptr;
  const uint32_t* const flag_below = stacked ? own.flag(p.flags, own.cell - 1, p.batch) : nullptr;
  uint32_t* const flag = own.flag(p.flags, own.cell, p.batch);
  T* const y = static_cast<T*>(cell.y);
  const auto row_of_tile = [&](int step) {
    return (int64_t{step} * p.batch + own.first_row) * p.y_stride;
  };
  __syncthreads();

  for (int s = 0; s < p.steps; ++s) {
    const int step = cell.reverse ? p.steps - 1 - s : s;
    const int64_t at = int64_t{step} * p.batch + own.row;
    float2 z[blocks];
#pragma unroll
    for (int i = 0; i < blocks; ++i) z[i] = bias[i];
    if (own.owner && !stacked) {
#pragma unroll
      for (int gate = 0; gate < gates; ++gate) {
        add_pair<T>(z[gating == Gating::gru && gate == 2 ? 3 : gate], cell.gx,
                    (at * gates + gate) * p.hidden + own.unit);
      }
    }
    float acc[M][sums][4] = {};
    if (stacked) {
      await(flag_below, static_cast<uint32_t>((s + 1) * own.tiles));
      multiply_partial<T, M, tiles>(
          acc, below + row_of_tile(step), p.y_stride, own.valid, p.hidden, w_ih, [](int tile) {
            constexpr int last = 2 * U / 8;
            return gating == Gating::gru && tile >= last ? tile + U / 8 : tile;
          });
    }
    const bool first = s == 0;
    if (!first) await(flag, static_cast<uint32_t>(s * own.tiles));
    if (!first || cell.h0) {
      const T* const before =
          first ? static_cast<const T*>(cell.h0) + int64_t{own.first_row} * p.hidden
                : y + row_of_tile(cell.reverse ? step + 1 : step - 1);
      multiply_partial<T, M, tiles>(acc, before, first ? p.hidden : p.y_stride, own.valid, p.hidden,
                                    w_hh, [](int tile) { return tile; });
    }
    partials.put(acc);
    __syncthreads();
    if (own.owner) {
      float a[blocks], b[blocks];
#pragma unroll
      for (int i = 0; i < blocks; ++i) {
        const float2 sum = partials.sum(own.local_row, i * U + own.local_unit);
        a[i] = z[i].x + sum.x;
        b[i] = z[i].y + sum.y;
      }
      const bool inside = step < length;
      if (inside) {
        step_cell<gating>(a, h.x, c.x, p.relu);
        step_cell<gating>(b, h.y, c.y, p.relu);
      }
      store_pair(y + at * p.y_stride + own.unit, inside ? h : make_float2(0, 0));
      if constexpr (gating != Gating::plain) {
        if (cell.gates) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            store_pair(static_cast<T*>(cell.gates) + (at * 4 + i) * p.hidden + own.unit,
                       make_float2(a[i], b[i]));
          }
        }
        if (cell.c) store_pair(cell.c + at * p.hidden + own.unit, c);
      }
    }
    arrive(flag);  // and partials may be overwritten
  }
  if (own.owner) {
    if (cell.h_last) store_pair(static_cast<T*>(cell.h_last) + state_at, h);
    if (cell.c_last) store_pair(static_cast<T*>(cell.c_last) + state_at, c);
  }
#else  // not launched: see persistent_kernels_compiled()
  __trap();
#endif
}

}  // namespace

bool persistent_kernels_compiled() {
  static const bool compiled = [] {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, forward_kernel<float, Gating::plain, 2, 8>),
          "asking what a kernel was compiled for");
    return attributes.ptxVersion >= 90;
  }();
  return compiled;
}

void persistent_forward(const PersistentLaunch& launch, std::span<const PersistentCell> cells) {
  const bool stacked = std::ranges::any_of(cells, [](const auto& cell) { return cell.w_ih; });
  launch_persistent(
      launch, cells, persistent_forward_bytes(launch.geometry, launch.tiling, stacked),
      [&]<class T, Gating gating, int M, int U> { return &forward_kernel<T, gating, M, U>; });
}

}  // namespace whisker::cuda
