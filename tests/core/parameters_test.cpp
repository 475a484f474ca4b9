// The arena with compute views: layers read 16-bit copies, masters stay f32, and every change of a
// master reaches its copy.
#include "core/parameters/parameters.h"

#include "core/backend/backend.h"
#include "core/ops/ops.h"
#include "tests/support/devices.h"

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

// Ten bits of fraction more than bf16 and f16 hold.
constexpr float fine = 1.0f + 0x1p-20f;

struct Net {
  static std::shared_ptr<Parameter> make(const char* name, ParameterRole role, int64_t size) {
    const auto fill = [](uint64_t, uint64_t, std::span<float> out) {
      for (size_t i = 0; i < out.size(); ++i) out[i] = fine * static_cast<float>(i + 1);
    };
    auto parameter = std::make_shared<Parameter>(Shape{size}, role, fill);
    parameter->set_name(name);
    return parameter;
  }
  explicit Net(ArenaTypes types, Device device = cpu_device)
      : arena(
            [&] {
              frozen->set_trainable(false);
              frozen_gamma->set_trainable(false);
              bias->set_group(3);
              gamma->set_group(1);
              return ParameterList{gamma, weight, mean, bias, frozen, frozen_gamma};
            }(),
            device, 1, types) {}

  // The gradient of sum(c x) is c.
  void backward_from(double to_weight, double to_gamma) {
    const Tensor w = affine(weight->value(), to_weight, 0);
    const Tensor g = affine(gamma->value(), to_gamma, 0);
    backward(add(sum(w).to(DType::f32), sum(g).to(DType::f32)));
  }

  std::shared_ptr<Parameter> gamma = make("norm.weight", ParameterRole::norm, 5);
  std::shared_ptr<Parameter> weight = make("dense.weight", ParameterRole::weight, 300);
  std::shared_ptr<Parameter> mean = make("norm.running_mean", ParameterRole::buffer, 5);
  std::shared_ptr<Parameter> bias = make("dense.bias", ParameterRole::bias, 7);
  std::shared_ptr<Parameter> frozen = make("frozen.weight", ParameterRole::conv_weight, 9);
  std::shared_ptr<Parameter> frozen_gamma = make("frozen.gamma", ParameterRole::norm, 2);
  ParameterArena arena;
};

void expect_copy(const Parameter& parameter, DType dtype) {
  EXPECT_EQ(parameter.value().dtype(), dtype) << parameter.name();
  EXPECT_EQ(parameter.master().dtype(), DType::f32) << parameter.name();
  EXPECT_EQ(parameter.value().to_vector(), parameter.master().to(dtype).to_vector())
      << parameter.name();
}

TEST(ParameterArena, TakesTheBytesThatItSays) {
  for (const ArenaTypes types : {ArenaTypes{}, ArenaTypes{.compute = DType::bf16}}) {
    const int64_t before = backend_of(cpu_device).memory_stats().allocated;
    const Net net(types);
    const int64_t taken = backend_of(cpu_device).memory_stats().allocated - before;
    const ArenaBytes bytes = ParameterArena::bytes_of(net.arena.parameters(), types);
    const int64_t said = bytes.values + bytes.gradients;
    EXPECT_GE(taken, said);
    EXPECT_LE(taken, said + said / 256) << "beside it a byte for each block's optimizer group";
  }
}

TEST(ParameterArena, WithoutComputeViewsAllIsOneRun) {
  Net net({});
  ASSERT_EQ(net.arena.runs().size(), 1U);
  const ParameterRun& run = net.arena.runs()[0];
  EXPECT_FALSE(run.compute.defined());
  EXPECT_EQ(run.value.count(), net.arena.count());
  EXPECT_EQ(run.value.raw(), net.arena.values().raw());
  EXPECT_EQ(net.weight->value().raw(), net.weight->master().raw());
  EXPECT_EQ(net.arena.compute_dtype(), DType::f32);
}

TEST(ParameterArena, ComputeViewsAreCopiesOfAllButNormAndBuffers) {
  for (const Device device : test_devices()) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      Net net({.compute = dtype}, device);
      EXPECT_EQ(net.arena.compute_dtype(), dtype);
      for (const auto& p : {net.weight, net.bias, net.frozen}) expect_copy(*p, dtype);
      for (const auto& p : {net.gamma, net.mean, net.frozen_gamma}) {
        EXPECT_EQ(p->value().dtype(), DType::f32);
        EXPECT_EQ(p->value().raw(), p->master().raw());
      }
      // Files get the masters, bit for bit.
      EXPECT_EQ(net.arena.read(*net.weight)[299], fine * 300);
      EXPECT_NE(net.weight->value().to_vector()[299], fine * 300);
    }
  }
}

TEST(ParameterArena, TwoRunsInLayerOrderWithTheirTypesAndGroups) {
  Net net({.compute = DType::bf16});
  ASSERT_EQ(net.arena.runs().size(), 2U);
  const ParameterRun& viewed = net.arena.runs()[0];
  const ParameterRun& plain = net.arena.runs()[1];
  EXPECT_EQ(viewed.offset, 0);
  EXPECT_EQ(plain.offset, viewed.value.count());
  EXPECT_EQ(viewed.value.count() + plain.value.count(), net.arena.count());
  EXPECT_EQ(viewed.compute.dtype(), DType::bf16);
  EXPECT_EQ(viewed.compute.count(), viewed.value.count());
  EXPECT_EQ(viewed.gradient.dtype(), DType::bf16);
  EXPECT_FALSE(plain.compute.defined());
  EXPECT_EQ(plain.gradient.dtype(), DType::f32);
  EXPECT_EQ(plain.value.raw(), net.gamma->master().raw());
  // 300 elements take 384: slices of copies are aligned to 256 bytes, too.
  EXPECT_EQ(viewed.block_group.to_vector(), (std::vector<double>{0, 0, 0, 0, 0, 0, 3, 3}));
  EXPECT_EQ(plain.block_group.to_vector(), (std::vector<double>{1, 1}));
  const Tensor flat = net.arena.make_like(MemoryCategory::optimizer);
  EXPECT_EQ(plain.of(flat).count(), plain.value.count());
  net.arena.write(flat, *net.gamma, std::vector<float>{1, 2, 3, 4, 5});
  EXPECT_EQ(plain.of(flat).to_vector()[4], 5);
}

TEST(ParameterArena, EveryWayOfChangingMastersReachesTheCopies) {
  Net net({.compute = DType::bf16});
  const uint64_t version = net.weight->value().storage()->version();
  std::vector<float> values(300, 0.1f);
  net.arena.write(*net.weight, values);
  expect_copy(*net.weight, DType::bf16);
  EXPECT_EQ(net.arena.read(*net.weight), values);
  EXPECT_NE(net.weight->value().storage()->version(), version);
  net.arena.write(*net.frozen, std::vector<float>(9, 0.3f));
  expect_copy(*net.frozen, DType::bf16);

  net.arena.values().fill_(0.7);
  net.arena.refresh();
  expect_copy(*net.weight, DType::bf16);
  expect_copy(*net.bias, DType::bf16);
  EXPECT_EQ(net.weight->value().to_vector()[0], static_cast<double>(float(bf16_t(0.7f))));
  EXPECT_EQ(net.gamma->value().to_vector()[0], static_cast<double>(0.7f));
}

TEST(ParameterArena, GradientsHaveTheComputeTypeOrAreWide) {
  Net narrow({.compute = DType::bf16});
  narrow.backward_from(1.0 / 3, 1.0 / 3);
  EXPECT_EQ(narrow.weight->gradient().dtype(), DType::bf16);
  const auto third = static_cast<double>(float(bf16_t(1.0f / 3)));
  EXPECT_EQ(narrow.weight->gradient().to_vector()[17], third);
  EXPECT_EQ(narrow.gamma->gradient().to_vector()[1], static_cast<double>(1.0f / 3));

  Net wide({.compute = DType::bf16, .wide_gradients = true});
  EXPECT_EQ(wide.weight->gradient().dtype(), DType::f32);
  wide.backward_from(1, 1);
  wide.backward_from(0x1p-9, 1);  // lost in a bf16 sum
  EXPECT_EQ(wide.weight->gradient().to_vector()[17], 1 + 0x1p-9);
  EXPECT_EQ(wide.gamma->gradient().to_vector()[1], 2);
  wide.arena.zero_grad();
  wide.backward_from(3, 1);
  EXPECT_EQ(wide.weight->gradient().to_vector()[17], 3);
  wide.arena.complete_gradients();
  EXPECT_EQ(wide.bias->gradient().to_vector(), std::vector<double>(7));
}

TEST(ParameterArena, CommitsBuffersUnlessTheConditionIsZero) {
  Net net({.compute = DType::bf16});
  net.mean->pending().fill_(4);
  int32_t condition = 0;
  net.arena.commit_buffers(&condition);
  EXPECT_EQ(net.mean->value().to_vector()[0], static_cast<double>(fine));
  condition = 1;
  net.arena.commit_buffers(&condition);
  EXPECT_EQ(net.mean->value().to_vector()[0], 4);
}

TEST(ParameterArena, LeavesHaveTheNamesOfTheirParameters) {
  for (const std::optional<DType> compute : {std::optional<DType>(), std::optional(DType::bf16)}) {
    const Net net({.compute = compute});
    EXPECT_STREQ(net.weight->value().node()->name(), "dense.weight");
  }
}

}  // namespace
}  // namespace whisker::test
