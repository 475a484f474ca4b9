// The code of docs/internals/recurrent.md.
#include "core/ops/recurrent_cells.h"
#include "layers/layers.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::Pointwise;

constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};
constexpr TensorOptions i64{.dtype = DType::i64, .device = reference_device};

Tensor drawn(const Shape& shape, uint64_t stream) {
  return rand_normal(shape, 0, 1, 1, stream, exact);
}

// An lstm of 4 units on 2 features.
std::vector<RecurrentParameters> some_parameters() {
  return {{.w_ih = drawn({16, 2}, 1),
           .w_hh = drawn({16, 4}, 2),
           .b_ih = drawn({16}, 3),
           .b_hh = drawn({16}, 4)}};
}

TEST(RecurrentDocument, CellsAndTheOperator) {
  const Tensor x = drawn({3, 2, 2}, 5);
  const auto parameters = some_parameters();
  const RecurrentResult fast = recurrent(x, parameters);
  const RecurrentResult plain = recurrent_by_cells(x, parameters);
  EXPECT_THAT(fast.y.to_vector(), Pointwise(DoubleNear(1e-12), plain.y.to_vector()));
}

TEST(RecurrentDocument, Lengths) {
  const Tensor x = drawn({3, 2, 2}, 5);
  const auto parameters = some_parameters();
  const Tensor lengths = from_vector({1, 3}, {2}, i64);
  const RecurrentResult y = recurrent(x, parameters, {.lengths = lengths});  // x (3, 2, features)
  EXPECT_THAT(slice(slice(y.y, 0, 1, 3), 1, 0, 1).to_vector(), Each(0));
  EXPECT_EQ(slice(y.last.h, 1, 0, 1).to_vector(), slice(slice(y.y, 0, 0, 1), 1, 0, 1).to_vector());
}

TEST(RecurrentDocument, CarriedStates) {
  Sequential net;
  net.add<Recurrent>({.features = 2, .units = 4, .return_sequences = true});
  const ParameterArena arena(net.parameters(), reference_device, 1, {.master = DType::f64});
  const Tensor x = drawn({3, 2, 2}, 5);
  CarriedStates states;
  const Tensor first = net(slice(x, 0, 0, 2), {.states = &states});
  const Tensor rest = net(slice(x, 0, 2, 3), {.states = &states});
  EXPECT_EQ(concat({first, rest}, 0).to_vector(), net(x).to_vector());
}

}  // namespace
}  // namespace whisker
