// Pooling over windows of NHWC images, and its adaptive and global forms.
#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/pooling.h"
#include "core/ops/checks.h"
#include "core/ops/window.h"

namespace whisker {
namespace {

constexpr const char* op_name(PoolKind kind) {
  return kind == PoolKind::max ? "max_pool2d" : "avg_pool2d";
}

Tensor pool2d(PoolKind kind, const Tensor& x, const Pool2dOptions& options) {
  const char* name = op_name(kind);
  check_computes(name, "x", x);
  const Pool2dGeometry geometry = pool2d_geometry(kind, x.shape(), options, x.dtype());
  PoolingKernels& kernels = backend_of(x.device()).pooling();
  const Tensor y = empty({geometry.n, geometry.h_out, geometry.w_out, geometry.c}, x.options());
  Tensor workspace;
  if (needs_grad(x)) {
    if (const int64_t bytes = kernels.workspace_bytes(geometry); bytes > 0) {
      workspace = empty({bytes}, {.dtype = DType::u8, .device = x.device()});
    }
  }
  kernels.pool2d(geometry, x, y, workspace);
  if (op_attributes) *op_attributes = attributes_of(geometry);
  record(name, {&x}, y, [geometry, workspace = save(workspace)](Gradients& g) {
    g.no_double_backward();
    backend_of(g.dy().device())
        .pooling()
        .pool2d_backward(geometry, workspace(g), g.dy(), g.grad_buffer(0));
  });
  return y;
}

// (windows, extent): row i averages [floor(i extent / windows), ceil((i + 1) extent / windows)).
// Filled where it lies: a captured step must not copy from host memory.
Tensor averaging_matrix(int64_t windows, int64_t extent, TensorOptions options) {
  const Tensor weights = zeros({windows, extent}, options);
  for (int64_t i = 0; i < windows; ++i) {
    const int64_t begin = i * extent / windows;
    const int64_t end = ((i + 1) * extent + windows - 1) / windows;
    Tensor(weights.storage(), i * extent + begin, {end - begin}, options.dtype)
        .fill_(1.0 / static_cast<double>(end - begin));
  }
  return weights;
}

}  // namespace

Pool2dGeometry pool2d_geometry(PoolKind kind, const Shape& x, const Pool2dOptions& options,
                               DType dtype) {
  const char* name = op_name(kind);
  if (x.rank() != 4 || x.count() == 0) {
    fail(ErrorKind::usage, "{}: expected x (N,H,W,C) with at least one element, got {}.", name, x);
  }
  const Pair stride = options.stride.value_or(options.kernel);
  check_attribute(name, "kernel", options.kernel, 1);
  check_attribute(name, "stride", stride, 1);
  check_attribute(name, "padding", options.padding, 0);
  if (options.padding_mode == PaddingMode::number &&
      (options.padding.h >= options.kernel.h || options.padding.w >= options.kernel.w)) {
    fail(ErrorKind::usage,
         "{}: expected padding below the kernel ({},{}), got ({},{}): windows would see no image.",
         name, options.kernel.h, options.kernel.w, options.padding.h, options.padding.w);
  }
  const WindowPlaces down = place_windows(name, "height",
                                          {.extent = x[1],
                                           .kernel = options.kernel.h,
                                           .stride = stride.h,
                                           .padding = options.padding.h,
                                           .mode = options.padding_mode,
                                           .ceil = options.ceil});
  const WindowPlaces across = place_windows(name, "width",
                                            {.extent = x[2],
                                             .kernel = options.kernel.w,
                                             .stride = stride.w,
                                             .padding = options.padding.w,
                                             .mode = options.padding_mode,
                                             .ceil = options.ceil});
  return {.kind = kind,
          .n = x[0],
          .h = x[1],
          .w = x[2],
          .c = x[3],
          .kernel_h = options.kernel.h,
          .kernel_w = options.kernel.w,
          .stride_h = stride.h,
          .stride_w = stride.w,
          .pad_top = down.before,
          .pad_bottom = down.after,
          .pad_left = across.before,
          .pad_right = across.after,
          .h_out = down.count,
          .w_out = across.count,
          .counted_top = options.count_padding ? down.before : 0,
          .counted_bottom = options.count_padding ? down.after_padding : 0,
          .counted_left = options.count_padding ? across.before : 0,
          .counted_right = options.count_padding ? across.after_padding : 0,
          .dtype = dtype};
}

Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options) {
  return pool2d(PoolKind::max, x, options);
}

Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options) {
  return pool2d(PoolKind::average, x, options);
}

Tensor adaptive_avg_pool2d(const Tensor& x, Pair output) {
  check_rank("adaptive_avg_pool2d", "x", x, 4);
  check_not_empty("adaptive_avg_pool2d", "x", x);
  check_attribute("adaptive_avg_pool2d", "output", output, 1);
  const int64_t n = x.extent(0), h = x.extent(1), w = x.extent(2), c = x.extent(3);
  // Beside another gradient of x, backward of mean() writes none as large as x.
  if (output.h == 1 && output.w == 1) return mean(x, {1, 2}, {.keep_axes = true});
  if (h % output.h == 0 && w % output.w == 0) {
    return avg_pool2d(x, {.kernel = Pair(h / output.h, w / output.w)});
  }
  constexpr int64_t most_weights = int64_t{1} << 26;
  if (output.h > most_weights / h || output.w > most_weights / w) {
    fail(ErrorKind::usage, "adaptive_avg_pool2d: output ({},{}) is too large for x {}.", output.h,
         output.w, x.shape());
  }
  // Windows of unequal sizes: one product with averaging weights down, one across.
  const Tensor down = matmul(averaging_matrix(output.h, h, x.options()),
                             reshape(x, {n, h, w * c}));  // (N, h_out, W C)
  const Tensor across = matmul(averaging_matrix(output.w, w, x.options()),
                               reshape(down, {n * output.h, w, c}));  // (N h_out, w_out, C)
  return reshape(across, {n, output.h, output.w, c});
}

Tensor global_avg_pool2d(const Tensor& x) {
  check_rank("global_avg_pool2d", "x", x, 4);
  check_not_empty("global_avg_pool2d", "x", x);
  return mean(x, {1, 2});
}

}  // namespace whisker
