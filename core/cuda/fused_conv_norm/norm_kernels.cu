// A pass behind a fused convolution that reads two tensors and writes one.
#include "core/cuda/fused_conv_norm/norm_kernels.h"
#include "core/cuda/norm/row_pass.cuh"

namespace whisker::cuda::kernels {
namespace {

constexpr int map_blocks = 3;  // per multiprocessor

template <class T, int V>
__global__ void __launch_bounds__(block_threads, map_blocks)
    norm_gradient_kernel(ChannelLayout t, NormGradient p) {
  wait_for_previous();
  const int64_t channel = own_channel<V>(t);
  float center[V], dz_factor[V], x_factor[V], offset[V];
  const auto prepare = [&] {
    load(p.mean, channel, center);
    load(p.dz_factor, channel, dz_factor);
    load(p.x_factor, channel, x_factor);
    load(p.offset, channel, offset);
  };
  const auto gradient = [&](int v, float dz, float x) {
    return two_terms(dz, dz_factor[v], x - center[v], x_factor[v], offset[v]);
  };
  map_rows<T, V, 3, Walk::reversed>(t, static_cast<T*>(p.dx), prepare, gradient,
                                    static_cast<const T*>(p.dz), static_cast<const T*>(p.x));
}

}  // namespace

void apply_norm_gradient(Context& context, const BatchNormGeometry& g, const NormGradient& p) {
  visit_real(g.dtype, [&]<class T>() {
    constexpr int pack = pack_size<T>;
    launch_map<pack>("a fused norm's gradient", context,
                     sums_layout(context, g.rows, g.channels, pack), map_blocks,
                     norm_gradient_kernel<T, pack>, p);
  });
}

}  // namespace whisker::cuda::kernels
