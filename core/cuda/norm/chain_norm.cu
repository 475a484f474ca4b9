// Three small kernels between the convolutions of a chain. The first two have one thread for each
// channel; the third is a pass that reads two tensors and writes one.
#include "core/cuda/kernels/channels.cuh"
#include "core/cuda/kernels/columns.cuh"
#include "core/cuda/kernels/early_launch.cuh"
#include "core/cuda/kernels/launch.h"
#include "core/cuda/norm/chain_norm.h"

namespace whisker::cuda::kernels {
namespace {

// The two sums nearly cancel where the mean is large beside the deviation: in f64 they lose no
// more than they brought. What the squares round to below zero is zero; a NaN stays one.
__global__ void __launch_bounds__(block_threads)
    statistics_of_sums_kernel(int64_t channels, int64_t rows, float epsilon, SummedStatistics p,
                              Running running) {
  wait_for_previous();
  const int64_t c = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (c >= channels) return;
  const auto count = static_cast<double>(rows);
  const double mean = p.sums[c] / count;
  double spread = p.sums[channels + c] - p.sums[c] * mean;
  if (spread < 0) spread = 0;
  const auto variance = static_cast<float>(spread / count);
  p.mean[c] = static_cast<float>(mean);
  if (p.variance) p.variance[c] = variance;
  p.inverse_deviation[c] = 1 / sqrtf(variance + epsilon);
  if (!running.mean) return;
  const auto unbiased = static_cast<float>(spread / (count > 1 ? count - 1 : 1));
  running.pending_mean[c] =
      running.kept * running.mean[c] + running.added * static_cast<float>(mean);
  running.pending_variance[c] = running.kept * running.variance[c] + running.added * unbiased;
}

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

dim3 grid_over(int64_t channels) {
  return {static_cast<unsigned>((channels + block_threads - 1) / block_threads)};
}

}  // namespace

void statistics_of_sums(Context& context, const BatchNormGeometry& g, const SummedStatistics& p,
                        const Running& running) {
  launch_early(context, grid_over(g.channels), block_threads, statistics_of_sums_kernel, g.channels,
               g.rows, static_cast<float>(g.epsilon), p, running);
  check_launch("statistics of sums");
}

void fold_norm(Context& context, int64_t channels, const float* mean,
               const float* inverse_deviation, const float* gamma, const float* beta,
               void* folded) {
  launch_early(context, grid_over(channels), block_threads, fold_norm_kernel, channels, mean,
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
