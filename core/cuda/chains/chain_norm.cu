// Two kernels between the convolutions of a chain: one thread for each channel, and a pass that
// reads two tensors and writes one.
#include "core/cuda/chains/chain_norm.h"
#include "core/cuda/device/channels.cuh"
#include "core/cuda/device/early_launch.cuh"
#include "core/cuda/device/launch.h"
#include "core/cuda/norm/columns.cuh"

namespace whisker::cuda::kernels {
namespace {

__global__ void __launch_bounds__(block_threads)
    fold_norm_kernel(int64_t channels, const float* mean, const float* inverse_deviation,
                     const float* gamma, const float* beta, half_t* folded) {
  wait_for_previous();
  const int64_t c = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (c >= channels) return;
  // The shift undoes what the rounded scale does to the mean.
  const half_t scale = from_f32<half_t>(inverse_deviation[c] * gamma[c]);
  folded[c] = scale;
  folded[channels + c] = from_f32<half_t>(fmaf(-mean[c], to_f32(scale), beta[c]));
}

template <int V>
__global__ void __launch_bounds__(block_threads, 3)
    chain_gradient_kernel(Columns t, ChainGradient p) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  if (channel >= t.channels) return;
  float dz_factor[V], x_factor[V], offset[V];
  const auto prepare = [&] {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      dz_factor[v] = p.dz_factor[channel + v];
      x_factor[v] = p.x_factor[channel + v];
      offset[v] = p.offset[channel + v];
    }
  };
  const auto* dz = static_cast<const half_t*>(p.dz);
  const auto* x = static_cast<const half_t*>(p.x);
  auto* dx = static_cast<half_t*>(p.dx);
  struct Row {
    Unopened<half_t, V> dz, x;
  };
  const auto load_row = [&](const RowPlace& place) {
    return Row{load_unopened<V>(dz, place.at), load_unopened<V>(x, place.at)};
  };
  for_rows_upwards<V, 4>(t, load_row, prepare, [&](const RowPlace& place, const Row& row) {
    auto d = open_pack<half_t, V>(row.dz);
    const auto in = open_pack<half_t, V>(row.x);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float other = fmaf(x_factor[v], to_f32(in.at[v]), offset[v]);
      d.at[v] = from_f32<half_t>(fmaf(dz_factor[v], to_f32(d.at[v]), other));
    }
    store_pack<V>(dx, place.at, d);
  });
}

}  // namespace

void fold_norm(Context& context, int64_t channels, const float* mean,
               const float* inverse_deviation, const float* gamma, const float* beta,
               void* folded) {
  launch_early(context, blocks_of(channels), block_threads, fold_norm_kernel, channels, mean,
               inverse_deviation, gamma, beta, static_cast<half_t*>(folded));
  check_launch("folding a batch_norm");
}

void apply_chain_gradient(Context& context, const BatchNormGeometry& g, const ChainGradient& p) {
  constexpr int pack = pack_size<half_t>;
  const Columns t =
      Columns::of(g.rows, g.channels, pack, block_threads, context.multiprocessors() * 16, 4);
  launch_early(context, {t.tiles, t.chunks}, block_threads, chain_gradient_kernel<pack>, t, p);
  check_launch("a chain's gradient");
}

}  // namespace whisker::cuda::kernels
