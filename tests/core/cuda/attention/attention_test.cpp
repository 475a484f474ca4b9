// Attention by cuDNN's fused kernels on a GPU. The operator tables compare results; here is what
// they do not see.
#include "core/autograd/autograd.h"
#include "tests/core/cuda/gpu.h"
#include "tests/support/agreement.h"
#include "tests/support/tolerance.h"

#include <cmath>
#include <cstdio>
#include <limits>

namespace whisker::test {
namespace {

using CudaAttention = GpuTest;

constexpr DType dtypes[] = {DType::bf16, DType::f16};

/// As core/cuda/attention/cudnn_attention.h asks for.
bool has_kernels() {
  for (const BackendProperty& property : backend_of(gpu).properties()) {
    int major = 0, minor = 0;
    if (property.name != "cuDNN") continue;
    if (std::sscanf(property.value.c_str(), "%d.%d", &major, &minor) != 2) return false;
    return cuda_gpu(gpu).capability >= 80 && major * 100 + minor >= 916;
  }
  return false;
}

/// {y, dqkv} of two heads.
std::vector<Tensor> step(const Tensor& qkv) {
  const Tensor y = attention(qkv, {}, {.heads = 2});
  return {y.detach(), grad(sum(y * y), {{qkv}})[0]};
}

Tensor random_qkv(const Shape& shape, DType dtype) {
  const Tensor qkv = rand_normal(shape, 0, 1, 3, 0, {.device = gpu}).to(dtype);
  qkv.set_requires_grad();
  return qkv;
}

TEST_F(CudaAttention, KeepsNoMatrixOfScores) {
  if (!has_kernels()) GTEST_SKIP() << "skipped: needs compute capability 8.0 and cuDNN 9.16";
  const int64_t tokens = 2000, matrix = 2 * 2 * tokens * tokens * 2;
  for (const DType dtype : dtypes) {
    const Tensor qkv = random_qkv({2, tokens, 3 * 64}, dtype);
    Backend& backend = backend_of(gpu);
    const int64_t before = backend.memory_stats().allocated;
    backend.reset_peak();
    step(qkv);
    EXPECT_LT(backend.memory_stats().peak - before, matrix / 2) << name_of(dtype);
  }
}

TEST_F(CudaAttention, ADeterministicStepRepeats) {
  CudaOptions options = exact_options();
  options.deterministic = true;
  set_cuda_options(gpu, options);
  for (const DType dtype : dtypes) {
    const Tensor qkv = random_qkv({4, 197, 3 * 128}, dtype);
    const std::vector<Tensor> first = step(qkv);
    for (int round = 0; round < 5; ++round) {
      const std::vector<Tensor> again = step(qkv);
      for (size_t i = 0; i < first.size(); ++i) {
        EXPECT_EQ(again[i].to_vector(), first[i].to_vector()) << name_of(dtype) << " " << i;
      }
    }
    set_cuda_options(gpu, exact_options());
    const std::vector<Tensor> other = step(qkv);
    set_cuda_options(gpu, options);
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_TRUE(close(other[i].to_vector(), first[i].to_vector(), tolerance(dtype, 300), 0)) << i;
    }
  }
}

TEST_F(CudaAttention, ACapturedStepIsTheEagerOne) {
  const Tensor qkv = random_qkv({2, 197, 3 * 64}, DType::bf16);
  const std::vector<Tensor> eager = step(qkv);
  const CapturedResults replayed(eager, [&] { return step(qkv); });
  for (int round = 0; round < 3; ++round) replayed.graph->replay();
  for (size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(close(replayed.results[i].to_vector(), eager[i].to_vector(),
                      tolerance(DType::bf16, 300), 0))
        << i;
  }
}

/// Over more than a block of keys, and all but the last ones.
TEST_F(CudaAttention, ABiasOfMinusInfinityMasksKeys) {
  constexpr int64_t tokens = 300;
  for (const int64_t masked : {5, 290}) {
    std::vector<double> bias(tokens * tokens, 0.0);
    for (size_t i = 0; i < bias.size(); ++i) {
      if (static_cast<int64_t>(i) % tokens < masked) {
        bias[i] = -std::numeric_limits<double>::infinity();
      }
    }
    for (const DType dtype : dtypes) {
      expect_agreement({.name = fmt::format("{} keys {}", masked, dtype),
                        .shapes = {{2, tokens, 3 * 32}},
                        .function =
                            [&](const std::vector<Tensor>& x) {
                              const Tensor b = from_vector(bias, {1, 1, tokens, tokens});
                              return attention(x[0], b.to(x[0].dtype()).to(x[0].device()),
                                               {.heads = 2});
                            },
                        .tolerance = tolerance(dtype, tokens),
                        .dtype = dtype,
                        .device = gpu});
    }
  }
}

/// Scores of -120: exp(-log_sum_exp) is infinite, which must meet no key that is not there.
TEST_F(CudaAttention, GradientsOfLargeNegativeScoresAreFinite) {
  std::vector<double> shift(3 * 64, 0.0);
  shift[0] = 30;
  shift[64] = -32;  // 30 (-32) / sqrt(64)
  for (const int64_t tokens : {5, 64, 100, 128, 192, 197, 300}) {
    for (const DType dtype : dtypes) {
      const Tensor shifts = from_vector(shift, {3 * 64}).to(dtype).to(gpu);
      const Tensor qkv = random_qkv({1, tokens, 3 * 64}, dtype);
      const Tensor y = attention(qkv * 0.1 + shifts, {}, {.heads = 1});
      for (const Tensor& result : {y.detach(), grad(sum(y * y), {{qkv}})[0]}) {
        for (const double value : result.to_vector()) {
          ASSERT_TRUE(std::isfinite(value)) << tokens << " tokens " << name_of(dtype);
        }
      }
    }
  }
}

TEST_F(CudaAttention, AcceptsUnalignedViews) {
  for (const DType dtype : dtypes) {
    expect_agreement({.name = fmt::format("{}", dtype),
                      .shapes = {{3 * 5 * 48 + 1}},
                      .function =
                          [](const std::vector<Tensor>& x) {
                            const Tensor part = slice(x[0], 0, 1, x[0].extent(0));
                            return attention(reshape(part, {3, 5, 48}), {}, {.heads = 2});
                          },
                      .tolerance = tolerance(dtype, 20),
                      .dtype = dtype,
                      .device = gpu});
  }
}

}  // namespace
}  // namespace whisker::test
