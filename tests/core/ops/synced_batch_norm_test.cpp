// batch_norm over the rows of several ranks equals batch_norm over all rows in one place: ranks as
// threads on the host, and on every device a rank whose only peer has the same rows.
#include "core/autograd/autograd.h"
#include "core/backend/registry.h"
#include "core/ops/ops.h"
#include "tests/support/tolerance.h"

#include <barrier>
#include <thread>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

/// The leaves and running statistics of a norm of `channels`.
struct Norm {
  Norm(int64_t channels, Device device)
      : gamma(affine(drawn({channels}, 1, device), 0.5, 1).detach().set_requires_grad()),
        beta(drawn({channels}, 2, device).set_requires_grad()),
        state{.running_mean = full({channels}, 0.25, {.device = device}),
              .running_var = full({channels}, 2, {.device = device}),
              .pending_mean = zeros({channels}, {.device = device}),
              .pending_var = zeros({channels}, {.device = device})} {}
  static Tensor drawn(const Shape& shape, uint64_t stream, Device device) {
    return rand_normal(shape, 0, 1, 5, stream, {.device = reference_device}).to(device);
  }
  Tensor operator()(const Tensor& x, const Tensor& residual, const NormRanks* ranks) const {
    return batch_norm(x, gamma, beta, state,
                      {.training = true, .activation = {Activation::relu}, .ranks = ranks},
                      residual);
  }
  Tensor gamma, beta;
  BatchNormState state;
};

/// y, dx, d residual, dgamma, dbeta, pending mean and variance of some rows.
std::vector<std::vector<double>> run(const Tensor& x, const Tensor& residual, const Tensor& dy,
                                     const NormRanks* ranks) {
  const Norm norm(x.extent(-1), x.device());
  const Tensor rows = x.clone().set_requires_grad(), added = residual.clone().set_requires_grad();
  const Tensor y = norm(rows, added, ranks);
  backward(y, {.gradient = dy});
  std::vector<std::vector<double>> all;
  for (const Tensor& one : {y, rows.grad(), added.grad(), norm.gamma.grad(), norm.beta.grad(),
                            norm.state.pending_mean, norm.state.pending_var}) {
    all.push_back(one.to_vector());
  }
  return all;
}

TEST(SyncedBatchNorm, OverRanksWithUnequalPartsIsThatOfAllRows) {
  const Device device = reference_device;
  const std::vector<int64_t> begins = {0, 1, 4, 9};  // examples of three ranks
  const Shape shape{9, 3, 2, 5};
  const Tensor x = affine(Norm::drawn(shape, 10, device), 3, 40);  // far from the running mean
  const Tensor residual = Norm::drawn(shape, 11, device), dy = Norm::drawn(shape, 12, device);
  const auto want = run(x, residual, dy, nullptr);

  std::barrier meet(3);
  std::vector<std::vector<double>> given(3);
  std::vector<std::vector<std::vector<double>>> got(3);
  std::vector<std::jthread> threads;
  for (size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto exchange = [&, rank](const Tensor& own) {
        meet.arrive_and_wait();
        given[rank] = own.to_vector();
        meet.arrive_and_wait();
      };
      const NormRanks ranks{.world = 3,
                            .fraction = static_cast<double>(begins[rank + 1] - begins[rank]) / 9,
                            .all_gather =
                                [&](const Tensor& own, const Tensor& all) {
                                  exchange(own);
                                  std::vector<double> together;
                                  for (const auto& one : given)
                                    together.insert(together.end(), one.begin(), one.end());
                                  all.copy_(from_vector(together, all.shape(), all.options()));
                                },
                            .all_reduce =
                                [&](const Tensor& sums) {
                                  exchange(sums);
                                  std::vector<double> total(given[0].size());
                                  for (const auto& one : given) {
                                    for (size_t i = 0; i < one.size(); ++i) total[i] += one[i];
                                  }
                                  sums.copy_(from_vector(total, sums.shape(), sums.options()));
                                }};
      const auto part = [&](const Tensor& all) {
        return slice(all, 0, begins[rank], begins[rank + 1]);
      };
      got[rank] = run(part(x), part(residual), part(dy), &ranks);
    });
  }
  threads.clear();
  for (const size_t i : {0u, 1u, 2u}) {  // of rows
    std::vector<double> together;
    for (const auto& one : got) together.insert(together.end(), one[i].begin(), one[i].end());
    EXPECT_TRUE(close(together, want[i], 1e-4, 1)) << i;
  }
  for (const size_t i : {3u, 4u}) {  // gradients of parameters add up
    for (size_t c = 0; c < 5; ++c) {
      EXPECT_NEAR(got[0][i][c] + got[1][i][c] + got[2][i][c], want[i][c], 1e-4);
    }
  }
  for (const size_t i : {5u, 6u}) {  // the same bits on all ranks
    EXPECT_EQ(got[0][i], got[1][i]);
    EXPECT_EQ(got[0][i], got[2][i]);
    EXPECT_TRUE(close(got[0][i], want[i], 1e-5, 1)) << i;
  }
}

TEST(SyncedBatchNorm, WithATwinIsThatOfItsOwnRowsOnEveryDevice) {
  for (const Device device : available_devices()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      if (dtype == DType::bf16 && device == reference_device) continue;
      SCOPED_TRACE(device.str());
      const NormRanks twins{.world = 2,
                            .fraction = 0.5,
                            .all_gather =
                                [](const Tensor& own, const Tensor& all) {
                                  for (const int64_t i : {0, 1}) {
                                    slice(all.reshape({2, own.count()}), 0, i, i + 1)
                                        .copy_(own.reshape({1, own.count()}));
                                  }
                                },
                            .all_reduce = [](const Tensor& s) { s.copy_(affine(s, 2, 0)); }};
      const Shape shape{4, 6, 6, 16};
      const auto drawn = [&](uint64_t stream) {
        return Norm::drawn(shape, stream, device).to(dtype);
      };
      const auto want = run(drawn(20), drawn(21), drawn(22), nullptr);
      const auto got = run(drawn(20), drawn(21), drawn(22), &twins);
      const double tolerance = dtype == DType::f32 ? 1e-5 : 0.03;
      for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(close(got[i], want[i], tolerance, 1)) << i;
    }
  }
}

}  // namespace
}  // namespace whisker::test
