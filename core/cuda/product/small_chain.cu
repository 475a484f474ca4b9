// Each block takes eight rows of the batch through all layers, a warp each; a thread has one or two
// results of its row, summed in f32 and in order, and rounded to T between layers as layers apart
// round them. A layer takes a few hundred cycles, its weights' way from memory longer, so they are
// fetched some layers ahead. The weights' gradients need all rows, so they are a second kernel, of
// tiles over all layers at once.
#include "core/cuda/device/activations.cuh"
#include "core/cuda/device/early_launch.cuh"
#include "core/cuda/gpu/check.h"
#include "core/cuda/product/small_chain.cuh"

#include <algorithm>

namespace whisker::cuda {
namespace {

/// As many layers' weights as 48 KiB hold beside the rest.
template <int Width>
inline constexpr int stages = Width == tile_columns ? 8 : 2;
/// Columns of a thread, 32 apart.
template <int Width>
inline constexpr int columns_each = Width / tile_columns;

/// This thread's row and its first column.
struct Place {
  int row, column;  // in the tile
  int at;           // the row in the batch
  __device__ Place()
      : row(static_cast<int>(threadIdx.x) / tile_columns),
        column(static_cast<int>(threadIdx.x) % tile_columns),
        at(static_cast<int>(blockIdx.x) * tile_rows + row) {}
};

/// This thread's elements of a matrix (rows, columns), 0 outside and for a null one.
template <int Count, class T>
__device__ void load_columns(const T* matrix, const Place& place, int rows, int columns,
                             float (&values)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    const int column = place.column + i * tile_columns;
    const bool inside = matrix && place.at < rows && column < columns;
    values[i] = inside ? to_f32(matrix[place.at * columns + column]) : 0.0f;
  }
}

template <class T, int Width>
__global__ void __launch_bounds__(block_threads)
    forward_kernel(const __grid_constant__ SmallChain chain, const T* x) {
  constexpr int each = columns_each<Width>, ahead = stages<Width> - 1;
  constexpr int pack = pack_size<T>;
  __shared__ Weights<T, Width> ring[stages<Width>];
  __shared__ alignas(16) float rows[tile_rows][Width];
  __shared__ float biases[SmallChain::most_links][Width];
  wait_for_previous();
  const auto fetch = [&](int l) {
    if (l < chain.count) ring[l % stages<Width>].fetch(chain.links[l]);
    __pipeline_commit();
  };
#pragma unroll 1
  for (int l = 0; l < ahead; ++l) fetch(l);
  const Place place;
  float values[each];  // of this thread's columns
  load_columns(x, place, chain.rows, chain.links[0].in, values);
#pragma unroll 1
  for (int l = place.row; l < chain.count; l += tile_rows) {
    const T* const b = typed<T>(chain.links[l].b);
    for (int o = place.column; o < chain.links[l].out; o += tile_columns) {
      biases[l][o] = b ? to_f32(b[o]) : 0.0f;
    }
  }
  float* const row = rows[place.row];
#pragma unroll
  for (int i = 0; i < each; ++i) row[place.column + i * tile_columns] = values[i];
#pragma unroll 1
  for (int l = 0; l < chain.count; ++l) {
    __pipeline_wait_prior(ahead - 1);
    __syncthreads();  // layer l is there, and layer l - 1 no longer read
    fetch(l + ahead);
    const SmallLink& link = chain.links[l];
    const auto& weights = ring[l % stages<Width>].at;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int o = place.column + i * tile_columns;
      if (o >= link.out) break;
      float sum = 0;
#pragma unroll 8
      for (int k = 0; k < link.in; k += pack) {
        const auto w = *reinterpret_cast<const Pack<T, pack>*>(&weights[o][k]);
#pragma unroll
        for (int part = 0; part < pack; part += 4) {
          const float4 of_x = *reinterpret_cast<const float4*>(&row[k + part]);
          sum = fmaf(of_x.x, to_f32(w.at[part]), sum);
          sum = fmaf(of_x.y, to_f32(w.at[part + 1]), sum);
          sum = fmaf(of_x.z, to_f32(w.at[part + 2]), sum);
          sum = fmaf(of_x.w, to_f32(w.at[part + 3]), sum);
        }
      }
      const T y = from_f32<T>(activate(link.activation, sum + biases[l][o]));
      values[i] = to_f32(y);
      if (link.y && place.at < chain.rows) typed<T>(link.y)[place.at * link.out + o] = y;
    }
    __syncwarp();  // the row is read
#pragma unroll
    for (int i = 0; i < each; ++i) row[place.column + i * tile_columns] = values[i];
    __syncwarp();
  }
}

/// dz of the links from `first` on, and dx where it is not null.
template <class T, int Width>
__global__ void __launch_bounds__(block_threads)
    gradient_kernel(const __grid_constant__ SmallChain chain, int first, const T* dy, T* dx) {
  constexpr int each = columns_each<Width>, ahead = stages<Width> - 1;
  __shared__ Weights<T, Width> ring[stages<Width>];
  __shared__ Rows<T, Width> results[stages<Width>];  // y of the layer before
  __shared__ alignas(16) float rows[tile_rows][Width];
  wait_for_previous();
  const int last = chain.count - 1;
  const int lowest_product = dx ? 0 : first + 1;  // the last layer whose dx is wanted
  const auto slot = [&](int l) { return (last - l) % stages<Width>; };
  const auto fetch = [&](int l) {
    if (l >= lowest_product) {
      const SmallLink& link = chain.links[l];
      ring[slot(l)].fetch(link);
      if (l > 0) results[slot(l)].fetch(typed<T>(chain.links[l - 1].y), chain.rows, link.in);
    }
    __pipeline_commit();
  };
#pragma unroll 1
  for (int i = 0; i < ahead; ++i) fetch(last - i);
  const Place place;
  float d[each], y[each];  // the link's dy and y
  load_columns(dy, place, chain.rows, chain.links[last].out, d);
  load_columns(typed<T>(chain.links[last].y), place, chain.rows, chain.links[last].out, y);
  float* const row = rows[place.row];  // of dz
#pragma unroll 1
  for (int l = last; l >= first; --l) {
    const SmallLink& link = chain.links[l];
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int o = place.column + i * tile_columns;
      const bool inside = o < link.out;
      const float dz = inside ? activation_gradient(link.activation, y[i], d[i]) : 0.0f;
      row[o] = dz;
      if (inside && place.at < chain.rows) link.dz[place.at * link.out + o] = dz;
    }
    if (l < lowest_product) break;
    __pipeline_wait_prior(ahead - 1);
    __syncthreads();  // layer l is there, and layer l + 1 no longer read
    fetch(l - ahead);
    const auto& weights = ring[slot(l)].at;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int column = place.column + i * tile_columns;
      if (column >= link.in) break;
      float sum = 0;
#pragma unroll 8
      for (int o = 0; o < link.out; o += 4) {
        const float4 dz = *reinterpret_cast<const float4*>(&row[o]);
        sum = fmaf(dz.x, to_f32(weights[o][column]), sum);
        sum = fmaf(dz.y, to_f32(weights[o + 1][column]), sum);
        sum = fmaf(dz.z, to_f32(weights[o + 2][column]), sum);
        sum = fmaf(dz.w, to_f32(weights[o + 3][column]), sum);
      }
      const T rounded = from_f32<T>(sum);
      d[i] = to_f32(rounded);
      y[i] = to_f32(results[slot(l)].at[place.row][column]);
      if (l == 0 && place.at < chain.rows) dx[place.at * link.in + column] = rounded;
    }
    __syncwarp();  // the row is read
  }
}

/// dw (out, in) and db (out) of the links from `first` on, a row of the grid each.
template <class T>
__global__ void __launch_bounds__(block_threads)
    weights_kernel(const __grid_constant__ SmallChain chain, int first, const T* x) {
  wait_for_previous();
  const int l = first + static_cast<int>(blockIdx.y);
  const SmallLink& link = chain.links[l];
  const int in = link.in, out = link.out;
  const int across = (in + tile_columns - 1) / tile_columns;
  const int row = static_cast<int>(blockIdx.x) / across * tile_rows;
  const int column = static_cast<int>(blockIdx.x) % across * tile_columns;
  if (row >= out || !(link.dw || link.db)) return;  // narrower than others, or not wanted
  const float* const dz = link.dz;
  const T* const inputs = l == 0 ? x : typed<T>(chain.links[l - 1].y);
  const TileSums sums = tile_product(
      operand_of(out, false, [=](int o, int r) { return dz[r * out + o]; }),
      operand_of(link.dw ? in : 0, false, [=](int c, int r) { return to_f32(inputs[r * in + c]); }),
      row, column, chain.rows);
  const int o = row + static_cast<int>(threadIdx.x) / tile_columns;
  const int i = column + static_cast<int>(threadIdx.x) % tile_columns;
  if (o >= out) return;
  if (link.dw && i < in) typed<T>(link.dw)[o * in + i] = from_f32<T>(sums.product);
  if (link.db && i == 0) typed<T>(link.db)[o] = from_f32<T>(sums.row);
}

/// Calls fn.operator()<T, Width>() for the narrowest kernel that holds all layers.
template <class Fn>
void visit_kernel(DType dtype, const SmallChain& chain, Fn&& fn) {
  int widest = 0;
  for (int l = 0; l < chain.count; ++l) {
    widest = std::max({widest, chain.links[l].in, chain.links[l].out});
  }
  visit_real(dtype, [&]<class T>() {
    widest <= tile_columns ? fn.template operator()<T, tile_columns>()
                           : fn.template operator()<T, SmallChain::most_features>();
  });
}

}  // namespace

void small_chain(const Context& context, DType dtype, const SmallChain& chain, const void* x) {
  const auto blocks = static_cast<unsigned>(tiles(chain.rows, tile_rows));
  visit_kernel(dtype, chain, [&]<class T, int Width>() {
    launch_early(context, blocks, block_threads, forward_kernel<T, Width>, chain,
                 static_cast<const T*>(x));
  });
  check_launch("chain of dense layers");
}

void small_chain_backward(const Context& context, DType dtype, const SmallChain& chain,
                          const void* x, const void* dy, void* dx) {
  int first = 0;
  while (first < chain.count && !chain.links[first].dz) ++first;
  if (first == chain.count) return;
  int most_tiles = 0;  // of a layer's weights
  for (int l = first; l < chain.count; ++l) {
    const SmallLink& link = chain.links[l];
    if (!link.dw && !link.db) continue;
    most_tiles = std::max(most_tiles, tiles(link.out, tile_rows) * tiles(link.in, tile_columns));
  }
  const auto blocks = static_cast<unsigned>(tiles(chain.rows, tile_rows));
  const dim3 weight_blocks(static_cast<unsigned>(most_tiles),
                           static_cast<unsigned>(chain.count - first));
  visit_kernel(dtype, chain, [&]<class T, int Width>() {
    launch_early(context, blocks, block_threads, gradient_kernel<T, Width>, chain, first,
                 static_cast<const T*>(dy), static_cast<T*>(dx));
    if (most_tiles == 0) return;  // dx alone is wanted
    launch_early(context, weight_blocks, block_threads, weights_kernel<T>, chain, first,
                 static_cast<const T*>(x));
  });
  check_launch("gradients of a chain of dense layers");
}

}  // namespace whisker::cuda
