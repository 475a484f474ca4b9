// Reductions over axes, of the elements of a tensor or of the products of two, one axis at a time:
// x (outer, rows, inner) to (outer, inner). A column is a pack of adjacent elements of one outer
// index, reduced over its rows; where the rows themselves are contiguous (inner is 1), a row is cut
// into packs, and the elements of the last pack are combined at the end. Adjacent threads read
// adjacent packs. Where columns are few, the blocks along y split the rows, and a second launch
// combines the parts. Sums are f32, in an order fixed by the extents and the number of
// multiprocessors.
#include "core/backend/reduction.h"
#include "core/cuda/device_code/channels.cuh"
#include "core/cuda/device_code/group.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/ops/columns.cuh"

#include <algorithm>
#include <limits>

namespace whisker::cuda {
namespace {

// Large blocks, so that there are few parts to combine.
constexpr int reduce_threads = 512;
constexpr int reduce_blocks = 2;  // on a multiprocessor

/// The columns of x, and the threads of a block: `groups` times `down` rows times `across` adjacent
/// columns. Columns run on from one outer index to the next.
struct Columns {
  int64_t count;  // outer * packs
  int64_t packs;  // of a row
  int64_t rows;
  int64_t part = 0;  // rows of a block
  int across = 1, down = 1, groups = 1;
  unsigned tiles = 1, parts = 1;  // blocks along x and y

  static Columns of(int64_t outer, int64_t rows, int64_t packs, int multiprocessors) {
    Columns c{.count = outer * packs, .packs = packs, .rows = rows};
    // From 64 to 127 where there are as many, so that rows are cut evenly: then the usual numbers
    // of images leave no last round of few blocks.
    const int64_t cuts = std::max<int64_t>(packs / 64, 1);
    c.across = static_cast<int>((packs + cuts - 1) / cuts);
    c.down = static_cast<int>(std::clamp<int64_t>(rows / 2, 1, reduce_threads / c.across));
    c.groups = static_cast<int>(std::min<int64_t>(reduce_threads / (c.across * c.down),
                                                  (c.count + c.across - 1) / c.across));
    const int64_t width = int64_t{c.across} * c.groups;
    c.tiles = static_cast<unsigned>((c.count + width - 1) / width);
    // Enough blocks to fill the GPU, four rows per thread or more.
    const int64_t wanted = int64_t{reduce_blocks} * multiprocessors / c.tiles;
    c.parts = static_cast<unsigned>(
        std::clamp<int64_t>(wanted, 1, std::max<int64_t>(rows / (c.down * 4), 1)));
    c.part = (rows + c.parts - 1) / c.parts;
    return c;
  }
};

/// The larger or the smaller value; NaN if one is NaN.
struct Extremum {
  bool largest;
  __device__ float operator()(float a, float b) const {
    return (largest ? b > a : b < a) || isnan(b) ? b : a;
  }
};

/// Combines `value` over the threads of a column; the result is in those with row 0.
template <int N, class Op>
__device__ void combine_rows(const Op& op, const Columns& c, int row, Pack<float, N>* shared,
                             Pack<float, N>& value) {
  Pack<float, N>* const own = shared + threadIdx.x;
  *own = value;
  for (int left = c.down; left > 1;) {
    const int half = (left + 1) / 2;
    __syncthreads();
    if (row + half < left) {
      const Pack<float, N> other = own[half * c.across];
#pragma unroll
      for (int i = 0; i < N; ++i) value.at[i] = op(value.at[i], other.at[i]);
      *own = value;
    }
    left = half;
  }
}

/// y (gridDim.y, columns), for each part of the rows, is `scale` times the reduction of x, or of
/// the products of two x. A thread loads 64 bytes at a time. `folded`: the elements of a column are
/// combined, too.
template <class T, int N, class Op, class... X>
__global__ void __launch_bounds__(reduce_threads, reduce_blocks)
    reduce_kernel(Op op, float start, float scale, Columns c, bool folded, Channels y, X... x) {
  wait_for_previous();
  __shared__ Pack<float, N> shared[reduce_threads];
  const int line = static_cast<int>(threadIdx.x) / c.across;
  const int row = line % c.down;
  const int64_t column = (int64_t{blockIdx.x} * c.groups + line / c.down) * c.across +
                         static_cast<int>(threadIdx.x) % c.across;
  const bool inside = column < c.count;
  Pack<float, N> value;
#pragma unroll
  for (int i = 0; i < N; ++i) value.at[i] = start;
  if (inside) {
    const int64_t outer = c.count <= UINT32_MAX
                              ? static_cast<uint32_t>(column) / static_cast<uint32_t>(c.packs)
                              : column / c.packs;
    // Its first row: column is outer * packs + pack.
    const int64_t first = outer * (c.rows - 1) * c.packs + column;
    const int64_t begin = blockIdx.y * c.part;
    for_each_row<4 / sizeof...(x)>(
        begin + row, min(begin + c.part, c.rows), c.down,
        [&](int64_t at) { return load_packs<T, N>((first + at * c.packs) * N, x...); },
        [&](int64_t, const auto& packs) {
          packs.for_each(
              [&](int v, auto... terms) { value.at[v] = op(value.at[v], (terms * ...)); });
        });
  }
  combine_rows(op, c, row, shared, value);
  if (!inside || row != 0) return;
  const int64_t to = blockIdx.y * c.count + column;
  if (folded) {
#pragma unroll
    for (int i = 1; i < N; ++i) value.at[0] = op(value.at[0], value.at[i]);
    store(y, to, value.at[0] * scale);
    return;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) store(y, to * N + i, value.at[i] * scale);
}

/// Position and value of the largest so far.
struct Best {
  float value;
  int64_t at;
};

// G threads per column: 1 or 32.
template <class T, int G>
__global__ void __launch_bounds__(block_threads)
    argmax_kernel(SoftmaxGeometry g, const T* x, int64_t* y) {
  for_each_column<G>(g.outer * g.inner, [&](int64_t column, int lane) {
    const T* from = x + first_element(g, column);
    Best best{-std::numeric_limits<float>::infinity(), INT64_MAX};
    const auto take = [&](float value, int64_t at) {
      const bool greater = value > best.value || (isnan(value) && !isnan(best.value));
      const bool equal = value == best.value || (isnan(value) && isnan(best.value));
      if (greater || (equal && at < best.at)) best = {value, at};
    };
    for (int64_t c = lane; c < g.classes; c += G) take(to_f32(from[c * g.inner]), c);
    for (int distance = G / 2; distance > 0; distance /= 2) {
      const float value = __shfl_xor_sync(all_lanes, best.value, distance);
      const int64_t at = __shfl_xor_sync(all_lanes, best.at, distance);
      take(value, at);
    }
    if (lane == 0) y[column] = best.at;
  });
}

class Reduction final : public ReductionKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void reduce(ReduceOp op, const ReduceGeometry& g, const Tensor& x, const Tensor& y) override {
    const double scale = op == ReduceOp::mean ? 1 / static_cast<double>(g.reduce_count) : 1;
    reduce_axes({op, static_cast<float>(scale)}, g, x.dtype(), x.raw(), nullptr, operand(y));
  }

  void sum_products(const ReduceGeometry& g, const Tensor& a, const Tensor& b,
                    const Tensor& y) override {
    reduce_axes({ReduceOp::sum, 1}, g, y.dtype(), a.raw(), b.raw(), operand(y));
  }

  void argmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override {
    with_group<32>(x.dtype(), g, [&]<class T, int G>(unsigned blocks) {
      launch_kernel(stream(), "argmax", blocks, argmax_kernel<T, G>, g, x, y);
    });
  }

 private:
  /// y = `scale` times op over the rows.
  struct Rule {
    ReduceOp op;
    float scale;
  };

  /// x (outer, rows, inner), or its products with `factor` where that is not null, to y (outer,
  /// inner). Rows are split where `splits`.
  void reduce_rows(const Rule& r, int64_t outer, int64_t rows, int64_t inner, DType dtype,
                   const void* x, const void* factor, Channels y, bool splits = true) {
    const bool folded = inner == 1;
    with_packs(
        dtype, folded ? rows : inner,
        [&]<class T, int N>() {
          const Columns c = Columns::of(outer, folded ? rows / N : rows, folded ? 1 : inner / N,
                                        splits ? context_.multiprocessors() : 0);
          const bool split = c.parts > 1;
          const Scratch partials(allocator_,
                                 split ? c.parts * outer * inner * int64_t{sizeof(float)} : 0);
          const Channels to = split ? Channels{partials.data(), DType::f32} : y;
          const auto launch = [&](auto op, float start, auto... terms) {
            launch_pdl(context_, dim3(c.tiles, c.parts),
                       dim3(static_cast<unsigned>(c.across * c.down * c.groups)),
                       reduce_kernel<T, N, decltype(op), decltype(terms)...>, op, start,
                       split ? 1 : r.scale, c, folded, to, terms...);
          };
          constexpr float infinity = std::numeric_limits<float>::infinity();
          const auto* const elements = static_cast<const T*>(x);
          if (factor) {
            launch(Sum{}, 0.0f, elements, static_cast<const T*>(factor));
          } else if (r.op == ReduceOp::max) {
            launch(Extremum{true}, -infinity, elements);
          } else if (r.op == ReduceOp::min) {
            launch(Extremum{false}, infinity, elements);
          } else {
            launch(Sum{}, 0.0f, elements);
          }
          if (!split) return;
          reduce_rows(r, 1, c.parts, outer * inner, DType::f32, partials.data(), nullptr, y, false);
        },
        x, factor);
  }

  /// The longest reduced axis first: it leaves the fewest elements for the next pass. What a pass
  /// hands on is f32.
  void reduce_axes(const Rule& r, ReduceGeometry g, DType dtype, const void* x, const void* factor,
                   Channels y) {
    const auto rank = static_cast<size_t>(g.rank);
    size_t longest = rank, reduced = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      if (!g.reduced[axis]) continue;
      ++reduced;
      if (longest == rank || g.extent[axis] > g.extent[longest]) longest = axis;
    }
    int64_t outer = 1, rows = 1, inner = 1;
    for (size_t axis = 0; axis < rank; ++axis) {
      (axis < longest ? outer : axis == longest ? rows : inner) *= g.extent[axis];
    }
    context_.enter();
    if (reduced <= 1) return reduce_rows(r, outer, rows, inner, dtype, x, factor, y);
    const Scratch between(allocator_, outer * inner * int64_t{sizeof(float)});
    const Channels partial{between.data(), DType::f32};
    reduce_rows({r.op, 1}, outer, rows, inner, dtype, x, factor, partial);
    g.extent[longest] = 1;
    g.reduced[longest] = false;
    reduce_axes(r, g, DType::f32, between.data(), nullptr, y);
  }
};

}  // namespace

std::shared_ptr<ReductionKernels> make_reduction(CudaDevice& device) {
  return std::make_shared<Reduction>(device);
}

}  // namespace whisker::cuda
