// A pass behind a fused convolution that reads two tensors and writes one.
#include "core/cuda/device_code/channels.cuh"
#include "core/cuda/device_code/launch.h"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/fused_conv_norm/norm_kernels.h"
#include "core/cuda/norm/two_channel_sums.cuh"

namespace whisker::cuda::kernels {
namespace {

constexpr int map_blocks = 3;  // per multiprocessor

template <class T, int V>
__global__ void __launch_bounds__(block_threads, map_blocks)
    norm_gradient_kernel(ChannelLayout t, NormGradient p) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  if (channel >= t.channels) return;
  float center[V], dz_factor[V], x_factor[V], offset[V];
  const auto prepare = [&] {
    load(p.mean, channel, center);
    load(p.dz_factor, channel, dz_factor);
    load(p.x_factor, channel, x_factor);
    load(p.offset, channel, offset);
  };
  const auto* dz = static_cast<const T*>(p.dz);
  const auto* x = static_cast<const T*>(p.x);
  auto* dx = static_cast<T*>(p.dx);
  struct Row {
    PackBytes<T, V> dz, x;
  };
  const auto load_row = [&](const RowPosition& position) {
    return Row{load_pack_bytes<V>(dz, position.at), load_pack_bytes<V>(x, position.at)};
  };
  for_rows_reversed<V, 3>(t, load_row, prepare, [&](const RowPosition& position, const Row& row) {
    auto d = unpack<T, V>(row.dz);
    const auto in = unpack<T, V>(row.x);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float other = fmaf(x_factor[v], to_f32(in.at[v]) - center[v], offset[v]);
      d.at[v] = from_f32<T>(fmaf(dz_factor[v], to_f32(d.at[v]), other));
    }
    store_pack<V>(dx, position.at, d);
  });
}

}  // namespace

void apply_norm_gradient(Context& context, const BatchNormGeometry& g, const NormGradient& p) {
  visit_real(g.dtype, [&]<class T>() {
    constexpr int pack = pack_size<T>;
    const ChannelLayout t =
        map_layout(context, sums_layout(context, g.rows, g.channels, pack), pack, map_blocks);
    launch_pdl(context, t.grid(), t.threads(), norm_gradient_kernel<T, pack>, t, p);
  });
  check_launch("a fused norm's gradient");
}

}  // namespace whisker::cuda::kernels
