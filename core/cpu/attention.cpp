// Attention in blocks of queries: of the scores only one block by all tokens exists at a time, and
// backward computes it again (Dao et al. 2022, "FlashAttention", algorithms 1 and 4; blocks of keys
// are left whole). Its rows are whole, so it needs no log of the sum of exponentials, which would
// be rounded where scores are huge. Threads share the heads.
#include "core/backend/attention.h"

#include "core/cpu/cpu_kernels.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/pointwise.h"
#include "core/cpu/support/rows.h"
#include "core/vectorize.h"

#include <algorithm>

namespace whisker::cpu {
namespace {

constexpr int64_t block_queries = 64;

WHISKER_VECTORIZE void add_row(const float* term, int64_t stride, float* sum, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sum[i] += term[i * stride];
}

WHISKER_VECTORIZE double dot(const float* a, const float* b, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

/// One head of one example. Matrices have `tokens` rows of head_size elements: those of q, k and v
/// stand `row` elements apart, those of y g.width().
struct Head {
  Head(const AttentionGeometry& geometry, int64_t unit, const float* qkv, const float* biases)
      : g(geometry), n(unit / geometry.heads), h(unit % geometry.heads), row(3 * geometry.width()) {
    q = qkv + n * g.tokens * row + h * g.head_size;
    k = q + g.width();
    v = k + g.width();
    if (biases) bias = biases + n * g.bias_stride[0] + h * g.bias_stride[1];
  }

  /// p (rows, tokens) = the probabilities of the queries from `first` on.
  void probabilities(int64_t first, int64_t rows, float* p) const {
    gemm({.size = {rows, g.tokens, g.head_size},
          .a = {q + first * row, row},
          .b = transposed(k, row),
          .c = {p, g.tokens}});
    scale_row(p, static_cast<float>(g.scale()), rows * g.tokens);
    for (float* s = p; s < p + rows * g.tokens; s += g.tokens, ++first) {
      if (bias) add_row(bias + first * g.bias_stride[2], g.bias_stride[3], s, g.tokens);
      softmax_row(s, false, s, g.tokens);
    }
  }
  void drop(int64_t first, int64_t rows, float* p) const {
    if (g.dropout == 0) return;
    const auto element = static_cast<uint64_t>(((n * g.heads + h) * g.tokens + first) * g.tokens);
    drop_elements(g.key, g.dropout, element, p, p, rows * g.tokens);
  }
  /// Offset of this head in y.
  int64_t in_y() const { return n * g.tokens * g.width() + h * g.head_size; }

  const AttentionGeometry& g;
  int64_t n, h, row;
  const float *q = nullptr, *k = nullptr, *v = nullptr;
  const float* bias = nullptr;
};

class Attention final : public AttentionKernels, CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  bool fuses(const AttentionGeometry&, bool /*backward*/) override { return true; }

  void attention(const AttentionGeometry& given, const AttentionInputs& in,
                 const AttentionOutputs& out) override {
    ViaF32 t(device_.backend, "attention", out.y);
    const AttentionGeometry g = on_host(given);
    const float *qkv = f32(t.in(in.qkv)), *bias = g.bias ? f32(t.in(in.bias)) : nullptr;
    float* const y = f32(t.out(out.y));
    for_each_head(g, 1, [&](int64_t unit, float* p) {
      const Head head(g, unit, qkv, bias);
      for (int64_t first = 0; first < g.tokens; first += block_queries) {
        const int64_t rows = std::min(block_queries, g.tokens - first);
        head.probabilities(first, rows, p);
        head.drop(first, rows, p);
        gemm({.size = {rows, g.head_size, g.tokens},
              .a = {p, g.tokens},
              .b = {head.v, head.row},
              .c = {y + head.in_y() + first * g.width(), g.width()}});
      }
    });
  }

  void attention_backward(const AttentionGeometry& given, const AttentionSaved& saved,
                          const Tensor& dy, const Tensor& dqkv) override {
    ViaF32 t(device_.backend, "attention", dy);
    const AttentionGeometry g = on_host(given);
    const float *qkv = f32(t.in(saved.qkv)), *bias = g.bias ? f32(t.in(saved.bias)) : nullptr;
    const float *y = f32(t.in(saved.y)), *gradient = f32(t.in(dy));
    float* const to = f32(t.out(dqkv));
    const int64_t block = block_queries * g.tokens;
    for_each_head(g, g.dropout > 0 ? 3 : 2, [&](int64_t unit, float* p) {
      const Head head(g, unit, qkv, bias);
      float* const dq = to + (head.q - qkv);
      float* const dk = dq + g.width();
      float* const dv = dk + g.width();
      float* const dp = p + block;
      float* const dropped = g.dropout > 0 ? dp + block : p;
      for (int64_t first = 0; first < g.tokens; first += block_queries) {
        const int64_t rows = std::min(block_queries, g.tokens - first);
        const int64_t at = head.in_y() + first * g.width();
        const float beta = first > 0 ? 1.0f : 0.0f;  // of sums over the blocks
        head.probabilities(first, rows, p);
        if (dropped != p) {
          std::copy_n(p, rows * g.tokens, dropped);
          head.drop(first, rows, dropped);
        }
        gemm({.size = {g.tokens, g.head_size, rows},
              .a = transposed(dropped, g.tokens),
              .b = {gradient + at, g.width()},
              .c = {dv, head.row, beta}});
        gemm({.size = {rows, g.tokens, g.head_size},
              .a = {gradient + at, g.width()},
              .b = transposed(head.v, head.row),
              .c = {dp, g.tokens}});
        head.drop(first, rows, dp);
        for (int64_t i = 0; i < rows; ++i) {
          const int64_t from = at + i * g.width();
          const auto delta = static_cast<float>(dot(gradient + from, y + from, g.head_size));
          const auto scale = static_cast<float>(g.scale());
          map([=](float of_p, float of_dp) { return of_p * (of_dp - delta) * scale; },
              dp + i * g.tokens, g.tokens, p + i * g.tokens, dp + i * g.tokens);
        }
        gemm({.size = {rows, g.head_size, g.tokens},
              .a = {dp, g.tokens},
              .b = {head.k, head.row},
              .c = {dq + first * head.row, head.row}});
        gemm({.size = {g.tokens, g.head_size, rows},
              .a = transposed(dp, g.tokens),
              .b = {head.q + first * head.row, head.row},
              .c = {dk, head.row, beta}});
      }
    });
  }

 private:
  static AttentionGeometry on_host(AttentionGeometry g) {
    g.key = resolved(g.key);
    return g;
  }

  /// fn(unit, memory of `blocks` blocks of scores) for each example's each head.
  template <class Fn>
  void for_each_head(const AttentionGeometry& g, int64_t blocks, Fn&& fn) {
    const int64_t units = g.batch * g.heads, per_thread = blocks * block_queries * g.tokens;
    const Scratch<float> memory = scratch<float>(team_size(units, 1) * per_thread);
    float* const first = memory.data();
    parallel_each(units, 1,
                  [&](int64_t unit, int thread) { fn(unit, first + thread * per_thread); });
  }
};

}  // namespace

std::shared_ptr<AttentionKernels> make_attention(CpuDevice& device) {
  return std::make_shared<Attention>(device);
}

}  // namespace whisker::cpu
