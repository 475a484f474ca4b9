// Tiles, blocks and launches of the fused pointwise convolution.
#include "core/cuda/convolution/add_slices.cuh"
#include "core/cuda/device_code/shared_memory.h"
#include "core/cuda/fused_conv_norm/pointwise.h"
#include "core/cuda/fused_conv_norm/pointwise_forward.cuh"
#include "core/cuda/fused_conv_norm/pointwise_gradients.cuh"
#include "core/cuda/runtime/check.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace whisker::cuda {
namespace {

using namespace pointwise;

/// Tiles of about 16 KB of x, and of at most 72 KB where a row takes `row_elements` elements of
/// shared memory.
Tiles tiles_of(const Conv2dGeometry& g, int row_elements) {
  Tiles t{.rows = g.n * g.h * g.w, .c = static_cast<int>(g.c), .c_out = static_cast<int>(g.c_out)};
  t.tile_rows = std::min(8192 / t.c, 36864 / row_elements) / 16 * 16;
  t.count = (t.rows + t.tile_rows - 1) / t.tile_rows;
  return t;
}

/// Calls fn.operator()<T>() with the device type of bf16 or f16.
template <class Fn>
void visit_narrow(DType dtype, const Fn& fn) {
  dtype == DType::bf16 ? fn.template operator()<bfloat_t>() : fn.template operator()<half_t>();
}

LaunchTarget target_of(const Context& context, size_t shared_bytes = 0) {
  return {
      .stream = context.stream(), .capability = context.capability(), .shared_bytes = shared_bytes};
}

/// A kernel's blocks of `threads` threads and `elements` elements of shared memory each: as many as
/// are resident at once; at most one per tile, and at most `most` but one per multiprocessor.
template <class Kernel>
struct Launch {
  Kernel* kernel;
  int threads;
  LaunchTarget target;
  unsigned blocks;

  Launch(const Context& context, Kernel* function, const Tiles& t, int thread_count, int elements,
         int64_t most = std::numeric_limits<int64_t>::max())
      : kernel(function),
        threads(thread_count),
        target(target_of(context, static_cast<size_t>(elements) * 2)) {
    allow_shared_memory(kernel, target.shared_bytes);
    int resident = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads,
                                                        target.shared_bytes),
          "asking for resident blocks");
    const int64_t multiprocessors = context.multiprocessors();
    blocks = static_cast<unsigned>(std::min(
        {t.count, std::max(resident, 1) * multiprocessors, std::max(most, multiprocessors)}));
  }
  template <class... Arguments>
  void operator()(const Arguments&... arguments) const {
    launch_pdl(target, blocks, static_cast<unsigned>(threads), kernel, arguments...);
  }
};

template <class T, int Outputs>
void forward(Context& context, Allocator& allocator, const Conv2dGeometry& g,
             const ConvolutionOperands& o) {
  const int pitch = pitch_of(static_cast<int>(g.c));
  const Tiles t = tiles_of(g, 2 * pitch);
  const int parts = (t.c_out / 8 + Outputs - 1) / Outputs;
  const Launch launch(context, forward_kernel<T, Outputs>, t, forward_threads,
                      (parts * Outputs * 8 + 2 * t.tile_rows) * pitch);
  const int64_t slices = int64_t{launch.blocks} * (forward_threads / 32 / parts);
  const Scratch partial(allocator, slices * t.c_out * int64_t{sizeof(double2)});
  launch(t, o.norm, static_cast<const T*>(o.x), static_cast<const T*>(o.w), static_cast<T*>(o.y),
         partial.as<double2>());
  add_slices<double2>(target_of(context), partial.data(), slices, t.c_out,
                      StoreSums{t.c_out, static_cast<double>(t.rows), o.sums});
}

template <class T, int Units>
void backward(Context& context, Allocator& allocator, const Conv2dGeometry& g,
              const ConvolutionOperands& o, void* dw) {
  const int groups = static_cast<int>(g.c + 15) / 16, parts = std::max(8 / groups, 1);
  const int threads = groups * parts * 32;
  const int pitch = pitch_of(static_cast<int>(g.c)), dy_pitch = pitch_of(Units * 8);
  const Tiles t = tiles_of(g, 3 * pitch + 2 * dy_pitch);
  const int outputs = t.c * t.c_out + 2 * t.c;
  const auto* const x = static_cast<const T*>(o.norm_gradients.x);
  const auto* const w = static_cast<const T*>(o.w);
  const auto* const dy = static_cast<const T*>(o.y);
  const Scratch coefficients(allocator, 2 * g.c * int64_t{sizeof(float)});
  {
    // f32 slices of at most an eighth of x, or one block per multiprocessor.
    const Launch launch(context, gradient_sums_kernel<T, Units>, t, threads,
                        2 * t.tile_rows * (pitch + dy_pitch),
                        t.rows * t.c / (16 * int64_t{outputs} * parts));
    const int64_t slices = int64_t{launch.blocks} * parts;
    const Scratch partial(allocator, slices * outputs * int64_t{sizeof(float)});
    launch(t, o.norm, x, w, dy, partial.as<float>());
    add_slices<float>(target_of(context), partial.data(), slices, outputs,
                      StoreGradients<T>{t, o.norm, static_cast<T*>(dw), o.norm_gradients.dgamma,
                                        o.norm_gradients.dbeta, coefficients.as<float>()});
  }
  if (!o.x) return;
  const Launch launch(context, input_gradient_kernel<T, Units>, t, threads,
                      t.tile_rows * (3 * pitch + 2 * dy_pitch));
  launch(t, o.norm, coefficients.as<float>(), x, w, dy, static_cast<T*>(o.x));
}

}  // namespace

void pointwise_forward(Context& context, Allocator& allocator, const Conv2dGeometry& g,
                       const ConvolutionOperands& operands) {
  const int64_t units = g.c_out / 8, parts = (units + 3) / 4;
  visit_narrow(g.dtype, [&]<class T>() {
    const auto run = [&]<int Outputs>() { forward<T, Outputs>(context, allocator, g, operands); };
    switch ((units + parts - 1) / parts) {
      case 1:
      case 2:
        return run.template operator()<2>();
      case 3:
        return run.template operator()<3>();
      default:
        return run.template operator()<4>();
    }
  });
  check_launch("pointwise convolution");
}

void pointwise_backward(Context& context, Allocator& allocator, const Conv2dGeometry& g,
                        const ConvolutionOperands& operands, void* dw) {
  visit_narrow(g.dtype, [&]<class T>() {
    const auto run = [&]<int Units>() { backward<T, Units>(context, allocator, g, operands, dw); };
    const int64_t units = g.c_out / 8;
    if (units <= 2) return run.template operator()<2>();
    if (units == 3) return run.template operator()<3>();
    if (units == 4) return run.template operator()<4>();
    if (units == 5) return run.template operator()<5>();
    if (units <= 8) return run.template operator()<8>();
    run.template operator()<10>();
  });
  check_launch("gradients of a pointwise convolution");
}

}  // namespace whisker::cuda
