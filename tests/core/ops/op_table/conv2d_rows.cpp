// Convolution against a direct sum over an explicitly padded image, and the largest of windows of
// that.
#include "tests/core/ops/op_table/rows.h"

namespace whisker::test {
namespace {

/// The sums without an activation.
Values plain_sums(const SmallConvolution& s, Plain in) {
  const Values &x = in[0], &filter = in[1];
  const auto [pad_h, pad_w] = s.options.padding;
  const auto [top, left, bottom, right] =
      s.options.padding_mode == PaddingMode::number ? Edges{pad_h, pad_w, pad_h, pad_w} : s.same;
  const int64_t images = s.x[0];
  const int64_t channels = s.x[3];
  const int64_t rows = s.x[1] + top + bottom;
  const int64_t columns = s.x[2] + left + right;
  Values padded(static_cast<size_t>(images * rows * columns * channels), 0.0);
  const auto at = [&](int64_t n, int64_t i, int64_t j, int64_t k) -> double& {
    return padded[static_cast<size_t>(((n * rows + i) * columns + j) * channels + k)];
  };
  size_t next = 0;
  for (int64_t n = 0; n < images; ++n) {
    for (int64_t i = 0; i < s.x[1]; ++i) {
      for (int64_t j = 0; j < s.x[2]; ++j) {
        for (int64_t k = 0; k < channels; ++k) at(n, i + top, j + left, k) = x[next++];
      }
    }
  }
  const int64_t c_out = s.w[0];
  const int64_t kernel_h = s.w[1];
  const int64_t kernel_w = s.w[2];
  const int64_t per_group = s.w[3];
  Values y;
  const auto [stride_h, stride_w] = s.options.stride;
  const auto [dilation_h, dilation_w] = s.options.dilation;
  for (int64_t n = 0; n < images; ++n) {
    for (int64_t i = 0; i + (kernel_h - 1) * dilation_h < rows; i += stride_h) {
      for (int64_t j = 0; j + (kernel_w - 1) * dilation_w < columns; j += stride_w) {
        for (int64_t k = 0; k < c_out; ++k) {
          const int64_t group = k * s.options.groups / c_out;
          double sum = s.has_bias() ? in[2][static_cast<size_t>(k)] : 0;
          auto tap = filter.begin() + k * kernel_h * kernel_w * per_group;
          for (int64_t p = 0; p < kernel_h; ++p) {
            for (int64_t q = 0; q < kernel_w; ++q) {
              for (int64_t c = 0; c < per_group; ++c) {
                sum +=
                    *tap++ * at(n, i + p * dilation_h, j + q * dilation_w, group * per_group + c);
              }
            }
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

// The largest of each window of z, which is a result of `s`.
Values plain_max_pool(const SmallConvolution& s, const Values& z) {
  const Conv2dGeometry g = conv2d_geometry(s.x, s.w, true, s.options);
  const Pool2dOptions& pool = *s.options.max_pool;
  const Pair stride = pool.stride.value_or(pool.kernel);
  const int64_t h_out = (g.h_out + 2 * pool.padding.h - pool.kernel.h) / stride.h + 1;
  const int64_t w_out = (g.w_out + 2 * pool.padding.w - pool.kernel.w) / stride.w + 1;
  return plain_pool2d({"", {g.n, g.h_out, g.w_out, g.c_out}, pool, {h_out, w_out}}, false, z);
}

/// `residual`: x[3] is added before the activation.
OpCase row_of(const std::string& name, const SmallConvolution& s, bool residual) {
  OpCase row{.name = name,
             .inputs = {variable(s.x), variable(s.w, -0.7, 0.7)},
             .op =
                 [s, residual](Inputs x) {
                   return conv2d(x[0], x[1], s.has_bias() ? x[2] : Tensor(), s.options,
                                 residual ? x[3] : Tensor());
                 },
             .expected =
                 [s, residual](Plain x) {
                   Values z = plain_sums(s, x);
                   for (size_t i = 0; i < z.size(); ++i) {
                     z[i] = plain_activation(s.options.activation, z[i] + (residual ? x[3][i] : 0));
                   }
                   return s.options.max_pool ? plain_max_pool(s, z) : z;
                 },
             .twice = Twice::refused,
             .terms = s.x[0] * s.x[1] * s.x[2] + s.w[1] * s.w[2] * (s.x[3] + s.w[0]),
             .scale = 1};
  if (s.has_bias()) row.inputs.push_back(variable({s.w[0]}));
  return row;
}

// With gradients, which takes operators of its own, and without.
void add_residual_rows(std::vector<OpCase>& rows) {
  for (const SmallConvolution& s : small_residual_convolutions()) {
    const Conv2dGeometry g = conv2d_geometry(s.x, s.w, true, s.options);
    OpCase row = row_of(fmt::format("conv2d_residual_{}", s.name), s, true);
    if (!s.has_bias()) row.inputs.push_back(constant({s.w[0]}));
    row.inputs.push_back(variable({g.n, g.h_out, g.w_out, g.c_out}));
    rows.push_back(row);
    row.name += "_off_tape";
    row.twice = Twice::not_at_all;
    rows.push_back(row);
  }
}

}  // namespace

std::vector<OpCase> conv2d_rows() {
  std::vector<OpCase> rows;
  for (const SmallConvolution& s : small_convolutions()) {
    OpCase row = row_of(fmt::format("conv2d_{}", s.name), s, false);
    rows.push_back(row);
    if (s.has_bias() || s.options.max_pool) continue;
    row.name = s.options.groups > 1 ? "conv2d_with_sums_depthwise" : "conv2d_with_sums";
    row.op = [s](Inputs x) { return conv2d_with_sums(x[0], x[1], s.options).y; };
    rows.push_back(row);
  }
  add_residual_rows(rows);
  return rows;
}

}  // namespace whisker::test
