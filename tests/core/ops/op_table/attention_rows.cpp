// Attention from its definition. On the reference the operators refuse that it is made of: softmax
// stands in the rows' names.
#include "core/tensor/philox.h"
#include "tests/core/ops/op_table/rows.h"

#include <cmath>

namespace whisker::test {
namespace {

struct AttentionCase {
  const char* name;
  size_t n, tokens, heads, size;
  std::optional<Shape> bias = {};
  InputKind bias_kind = InputKind::variable;
  double dropout = 0;
};

Values plain_attention(const AttentionCase& s, Plain x) {
  const size_t width = s.heads * s.size;
  const RandomKey key{.seed = 3, .stream = 8, .step = 0};
  const auto tokens = static_cast<int64_t>(s.tokens), heads = static_cast<int64_t>(s.heads);
  const Shape scores{static_cast<int64_t>(s.n), heads, tokens, tokens};
  const Values bias =
      s.bias ? spread(x[1], *s.bias, scores) : Values(static_cast<size_t>(scores.count()), 0.0);
  Values y(s.n * s.tokens * width, 0.0);
  for (size_t n = 0; n < s.n; ++n) {
    for (size_t h = 0; h < s.heads; ++h) {
      for (size_t i = 0; i < s.tokens; ++i) {
        const size_t row = ((n * s.heads + h) * s.tokens + i) * s.tokens;
        const auto part = [&](size_t which, size_t token, size_t d) {
          return x[0][(n * s.tokens + token) * 3 * width + which * width + h * s.size + d];
        };
        Values p(s.tokens, 0.0);
        double sum = 0;
        for (size_t j = 0; j < s.tokens; ++j) {
          double score = 0;
          for (size_t d = 0; d < s.size; ++d) score += part(0, i, d) * part(1, j, d);
          p[j] = std::exp(score / std::sqrt(static_cast<double>(s.size)) + bias[row + j]);
          sum += p[j];
        }
        for (size_t j = 0; j < s.tokens; ++j) {
          const uint64_t element = row + j;
          const uint32_t word = philox_block(key.seed, key.stream, element / 4)[element % 4];
          if (static_cast<double>(word) < std::round(s.dropout * 4294967296.0)) continue;
          for (size_t d = 0; d < s.size; ++d) {
            y[(n * s.tokens + i) * width + h * s.size + d] +=
                p[j] / sum / (1 - s.dropout) * part(2, j, d);
          }
        }
      }
    }
  }
  return y;
}

}  // namespace

std::vector<OpCase> attention_rows() {
  using enum InputKind;
  const AttentionCase cases[] = {
      {"one_token", 2, 1, 1, 3},
      {"one_head", 1, 4, 1, 5},
      {"heads", 2, 5, 3, 2},
      {"dropout", 2, 5, 2, 3, {}, variable, 0.3},
      {"bias_of_heads", 2, 3, 2, 2, Shape{1, 2, 3, 3}},
      {"bias_of_keys", 2, 4, 2, 3, Shape{2, 1, 1, 4}, constant},
      {"bias_of_all_dropout", 2, 3, 2, 2, Shape{2, 2, 3, 3}, constant, 0.4},
      {"bias_of_queries", 1, 4, 2, 2, Shape{1, 1, 4, 1}, constant},
      // GPUs have fused kernels for heads of these sizes in 16-bit types.
      {"fused", 2, 3, 2, 8},
      {"fused_bias_of_heads", 2, 3, 2, 8, Shape{1, 2, 3, 3}, constant},
      {"fused_bias_of_all", 2, 5, 1, 16, Shape{2, 1, 5, 5}, constant},
      {"many_tokens", 1, 70, 1, 2, Shape{1, 1, 70, 70}, constant, 0.25},
  };
  std::vector<OpCase> rows;
  for (const AttentionCase& s : cases) {
    const Shape qkv{static_cast<int64_t>(s.n), static_cast<int64_t>(s.tokens),
                    static_cast<int64_t>(3 * s.heads * s.size)};
    std::vector<Input> inputs{test::variable(qkv, -2, 2)};
    if (s.bias) inputs.push_back({*s.bias, s.bias_kind, -1, 1});
    rows.push_back({.name = fmt::format("attention_softmax_{}", s.name),
                    .inputs = inputs,
                    .op =
                        [s](Inputs x) {
                          return attention(x[0], s.bias ? x[1] : Tensor(),
                                           {.heads = static_cast<int64_t>(s.heads),
                                            .dropout = s.dropout,
                                            .key = {.seed = 3, .stream = 8}});
                        },
                    .expected = [s](Plain x) { return plain_attention(s, x); },
                    .twice = Twice::refused,
                    .terms = static_cast<int64_t>(s.tokens * (s.size + 4)),
                    .scale = 1});
  }
  return rows;
}

}  // namespace whisker::test
