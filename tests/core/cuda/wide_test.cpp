// The kernels that the operator table's small cases do not reach: many blocks and their last one,
// several chunks of rows, packs of 16 bytes and the elements that fill none, long rows. Against the
// reference, forward and backward; masks against the host's, bit by bit.
#include "core/ops.h"
#include "core/optimizer_step.h"
#include "core/step_memory.h"
#include "gpu.h"
#include "tests/support/agreement.h"
#include "tests/support/tolerance.h"
#include "tests/support/update_state.h"

#include <cmath>

namespace whisker::test {
namespace {

using Operands = const std::vector<Tensor>&;

constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};

void expect_wide(const std::string& name, const std::vector<Shape>& shapes, int64_t terms,
                 const TensorFunction& function) {
  for (const DType dtype : dtypes) {
    expect_agreement({.name = fmt::format("{} {}", name, dtype),
                      .shapes = shapes,
                      .function = function,
                      .tolerance = tolerance(dtype, terms),
                      .dtype = dtype,
                      .device = gpu});
  }
}

class CudaWide : public GpuTest {};

TEST_F(CudaWide, BatchNorm) {
  const ActivationSpec relu{.kind = Activation::relu};
  // (rows, channels): packs side by side from 1 to more than a warp, one chunk to many, no packs.
  const std::vector<Shape> shapes = {{2000, 8}, {5000, 64}, {700, 256}, {300, 640},   {40, 2048},
                                     {3000, 3}, {50, 100},  {20, 24},   {4, 9, 9, 48}};
  for (const Shape& shape : shapes) {
    const Shape channels{shape[-1]};
    const int64_t rows = shape.count() / shape[-1];
    for (const bool activated : {false, true}) {
      const BatchNormOptions options{.training = true,
                                     .activation = activated ? relu : ActivationSpec{}};
      const std::string name = fmt::format("{}{}", shape, activated ? " relu" : "");
      expect_wide("batch_norm " + name, {shape, channels, channels}, rows,
                  [&](Operands x) { return batch_norm(x[0], x[1], x[2], {}, options); });
      expect_wide("batch_norm residual " + name, {shape, channels, channels, shape}, rows,
                  [&](Operands x) { return batch_norm(x[0], x[1], x[2], {}, options, x[3]); });
    }
  }
}

// What two consumers give back arrives in two parts, which the kernels add up themselves.
TEST_F(CudaWide, BatchNormOfAFork) {
  for (const Shape& shape : {Shape{2000, 64}, Shape{300, 5}}) {
    const Shape channels{shape[-1]};
    for (const bool activated : {false, true}) {
      const BatchNormOptions options{
          .training = true,
          .activation = {.kind = activated ? Activation::relu : Activation::none}};
      const auto fork = [](const Tensor& y) { return add(mul(y, y), affine(y, -2, 0)); };
      expect_wide("fork", {shape, channels, channels}, shape[0],
                  [&](Operands x) { return fork(batch_norm(x[0], x[1], x[2], {}, options)); });
      expect_wide(
          "fork of a residual", {shape, channels, channels, shape}, shape[0],
          [&](Operands x) { return fork(batch_norm(x[0], x[1], x[2], {}, options, x[3])); });
    }
  }
}

// Deviations are small beside the mean: sums of squares would cancel.
TEST_F(CudaWide, BatchNormFarFromZero) {
  const Shape shape{5000, 64};
  const Tensor near = rand_normal(shape, 1000, 0.5, 1, 2, {.device = reference_device});
  const auto normalise = [](const Tensor& x) {
    const TensorOptions options = x.options();
    return batch_norm(x, ones({64}, options), zeros({64}, options), {}, {.training = true})
        .to_vector();
  };
  // x itself is rounded to 6e-5, a deviation of 1e-4.
  EXPECT_TRUE(close(normalise(near.to(gpu)), normalise(near), 2e-4, 4));
}

TEST_F(CudaWide, BatchNormUpdatesRunningStatistics) {
  for (const Shape& shape : {Shape{5000, 64}, Shape{300, 5}}) {
    const auto pending = [&](Device device) {
      const TensorOptions options{.device = device};
      const Shape channels{shape[-1]};
      const Tensor x = rand_normal(shape, 3, 2, 1, 2, {.device = reference_device});
      const BatchNormState state{full(channels, 1, options), full(channels, 5, options),
                                 zeros(channels, options), zeros(channels, options)};
      batch_norm(x.to(device), ones(channels, options), zeros(channels, options), state,
                 {.training = true, .momentum = 0.25});
      std::vector<double> all = state.pending_mean.to_vector();
      for (const double value : state.pending_var.to_vector()) all.push_back(value);
      return all;
    };
    EXPECT_TRUE(close(pending(gpu), pending(reference_device), 1e-6, 1)) << shape.str();
  }
}

TEST_F(CudaWide, BatchNormWithStoredStatistics) {
  for (const Shape& shape : {Shape{3000, 64}, Shape{77, 5}}) {
    const Shape channels{shape[-1]};
    expect_wide("frozen batch_norm", {shape, channels, channels}, shape[0], [&](Operands x) {
      const TensorOptions options{.device = x[0].device()};
      const BatchNormState state{full(channels, 0.25, options), full(channels, 2, options), {}, {}};
      return batch_norm(x[0], x[1], x[2], state, {.activation = {.kind = Activation::relu}});
    });
  }
}

TEST_F(CudaWide, LayerNorm) {
  for (const Shape& shape : {Shape{3000, 64}, Shape{100, 768}, Shape{30, 5000}, Shape{200, 33},
                             Shape{5, 3001}, Shape{2, 7, 512}}) {
    const Shape features{shape[-1]};
    expect_wide(fmt::format("layer_norm {}", shape), {shape, features, features},
                shape.count() / shape[-1] + shape[-1],
                [](Operands x) { return layer_norm(x[0], x[1], x[2]); });
  }
}

TEST_F(CudaWide, Reductions) {
  const Shape shape{6, 50, 7, 64};
  const std::vector<Axes> cases = {{}, {0}, {1}, {3}, {0, 1, 2}, {1, 3}, {0, 2}, {2, 3}};
  for (const Axes& axes : cases) {
    const std::string name = fmt::format("over {}", fmt::join(axes, ","));
    expect_wide("sum " + name, {shape}, shape.count(), [&](Operands x) { return sum(x[0], axes); });
    expect_wide("mean " + name, {shape}, shape.count(),
                [&](Operands x) { return mean(x[0], axes); });
    expect_wide("max " + name, {shape}, 1, [&](Operands x) { return max(x[0], axes); });
    expect_wide("min " + name, {shape}, 1, [&](Operands x) { return min(x[0], axes); });
  }
  expect_wide("sum of many", {{3'000'001}}, 3'000'001, [](Operands x) { return sum(x[0]); });
  expect_wide("sum of rows", {{2, 1'000'003}}, 1'000'003,
              [](Operands x) { return sum(x[0], {1}); });
  expect_wide("sum of columns", {{100'003, 40}}, 100'003,
              [](Operands x) { return sum(x[0], {0}); });
}

TEST_F(CudaWide, Argmax) {
  for (const Shape& shape :
       {Shape{3000, 3}, Shape{500, 1000}, Shape{3, 70'001}, Shape{40, 30, 9}}) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const Tensor x = rand_normal(shape, 0, 1, 3, 4, {.device = reference_device});
      EXPECT_EQ(argmax(x.to(gpu), axis).to_vector(), argmax(x, axis).to_vector()) << shape.str();
      EXPECT_EQ(argmax(zeros(shape, {.device = gpu}), axis).to_vector(),
                std::vector<double>(static_cast<size_t>(shape.count() / shape[axis]), 0))
          << "ties go to the first";
    }
  }
}

TEST_F(CudaWide, Softmax) {
  for (const Shape& shape :
       {Shape{3000, 2}, Shape{300, 10}, Shape{64, 1000}, Shape{3, 5000}, Shape{4, 60, 70}}) {
    for (const int axis : {-1, 0}) {
      expect_wide(fmt::format("softmax {} axis {}", shape, axis), {shape}, shape[axis],
                  [&](Operands x) { return softmax(x[0], axis); });
      expect_wide(fmt::format("log_softmax {} axis {}", shape, axis), {shape}, shape[axis],
                  [&](Operands x) { return log_softmax(x[0], axis); });
    }
  }
}

TEST_F(CudaWide, CrossEntropy) {
  for (const Shape& shape : {Shape{20'000, 2}, Shape{4096, 10}, Shape{256, 1000}, Shape{7, 3000}}) {
    const int64_t rows = shape[0], classes = shape[1];
    std::vector<double> labels(static_cast<size_t>(rows));
    for (size_t r = 0; r < labels.size(); ++r) {
      labels[r] = static_cast<double>(r * r % static_cast<size_t>(classes));
    }
    const auto hard = [&](const Tensor& like) {
      return from_vector(labels, {rows}, {.dtype = DType::i64, .device = like.device()});
    };
    const std::string name = fmt::format("cross_entropy {}", shape);
    expect_wide(name, {shape}, rows, [&](Operands x) {
      return cross_entropy(x[0], hard(x[0]), {.label_smoothing = 0.1});
    });
    expect_wide(name + " weighted", {shape, {classes}}, rows, [&](Operands x) {
      return cross_entropy(x[0], hard(x[0]), {.class_weight = sigmoid(x[1].detach())});
    });
    expect_wide(name + " soft", {shape, shape}, rows,
                [&](Operands x) { return cross_entropy(x[0], softmax(x[1].detach())); });
  }
  expect_wide("binary_cross_entropy", {{10'007}, {10'007}}, 10'007, [](Operands x) {
    return binary_cross_entropy_with_logits(x[0], sigmoid(x[1].detach()));
  });
}

TEST_F(CudaWide, DropoutDrawsTheHostsMask) {
  for (const int64_t count : {1, 3, 4, 1000, 100'001}) {
    for (const DType dtype : dtypes) {
      const RandomKey key{.seed = 12345678901234567, .stream = 98765432109876543, .step = 3};
      const auto mask = [&](Device device) {
        return dropout(ones({count}, {.dtype = dtype, .device = device}), 0.3, key).to_vector();
      };
      const Device host = dtype == DType::f16 ? gpu : cpu_device;  // no f16 arithmetic on the host
      const std::vector<double> got = mask(gpu), want = mask(host);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 0.01) << i;
    }
    // A view off the 16-byte grid draws by its own element numbers.
    const Tensor shifted = slice(ones({count + 1}, {.device = gpu}), 0, 1, count + 1);
    const RandomKey key{.seed = 1, .stream = 2};
    EXPECT_EQ(dropout(shifted, 0.5, key).to_vector(),
              dropout(ones({count}, {.device = gpu}), 0.5, key).to_vector());
  }
}

TEST_F(CudaWide, PointwiseOnAndOffTheGrid) {
  for (const DType dtype : dtypes) {
    for (const int64_t count : {1, 7, 8, 4099, 3'000'000}) {
      const Tensor x =
          rand_normal({count + 1}, 0, 1, 5, 6, {.device = reference_device}).to(dtype).to(gpu);
      const Tensor on = slice(x, 0, 1, count + 1).clone();
      const Tensor off = slice(x, 0, 1, count + 1);
      for (const auto& f : std::vector<std::function<Tensor(const Tensor&)>>{
               [](const Tensor& t) { return relu(t); }, [](const Tensor& t) { return gelu(t); },
               [](const Tensor& t) { return add(t, t); }, [](const Tensor& t) { return exp(t); },
               [](const Tensor& t) { return cast(t, DType::f32); },
               [](const Tensor& t) { return cast(cast(t, DType::f32), t.dtype()); }}) {
        ASSERT_EQ(f(on).to_vector(), f(off).to_vector()) << count << " " << name_of(dtype);
      }
    }
  }
  expect_wide("broadcast", {{30, 1, 40, 8}, {20, 1, 8}}, 600,
              [](Operands x) { return mul(x[0], x[1]); });
}

TEST_F(CudaWide, CopiesAlongStrides) {
  expect_wide("channels", {{50, 33, 24}, {50, 33, 8}}, 1, [](Operands x) {
    return concat({slice(x[0], 2, 8, 24), x[1], slice(x[0], 2, 3, 5)}, 2);
  });
  expect_wide("transpose", {{20, 30, 40, 6}}, 1, [](Operands x) {
    return transpose(x[0], {3, 1, 0, 2});
  });
  expect_wide("pad", {{20, 30, 16}}, 1, [](Operands x) {
    const std::pair<int64_t, int64_t> amounts[] = {{1, 2}, {3, 0}, {8, 8}};
    return pad(x[0], amounts, 0.5);
  });
  expect_wide("repeat", {{20, 1, 16}}, 30, [](Operands x) {
    return broadcast_to(x[0], {20, 30, 16});
  });
}

TEST_F(CudaWide, Picks) {
  std::vector<double> rows(1500);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<double>(i * i % 37);
  for (const int64_t features : {1, 5, 64, 300}) {
    expect_wide("embedding", {{40, features}}, 1500, [&](Operands x) {
      return embedding(x[0],
                       from_vector(rows, {30, 50}, {.dtype = DType::i64, .device = x[0].device()}));
    });
  }
  expect_wide("gather", {{25, 40, 3}}, 20, [&](Operands x) {
    return gather(x[0], 1,
                  from_vector(rows, {25, 20, 3}, {.dtype = DType::i64, .device = x[0].device()}));
  });
}

// Millions of parameters, several groups: the same update as the CPU's.
TEST_F(CudaWide, OptimizerAndNorm) {
  const int64_t count = 64 * 30'011;
  const auto on = [&](Device device, OptimizerKind kind, DType gradient) {
    StepMemory memory(device);
    OptimizerStep step{.kind = kind, .momentum = 0.9, .state = memory.state()};
    memory.write(update_state(step, 2, 0.01, 0.5));
    std::vector<double> groups(static_cast<size_t>(count / 64));
    for (size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<double>(i / 7 % 3);
    step.groups =
        from_vector({1, 0.1, 0.5, 0, 0.1, 0.01}, {3, 2}, {.dtype = DType::f64, .device = device});
    step.block_group = from_vector(groups, {count / 64}, {.dtype = DType::u8, .device = device});
    const auto normal = [&](uint64_t stream) {
      return rand_normal({count}, 0, 1, 9, stream, {.device = cpu_device}).to(device);
    };
    step.value = normal(1);
    step.gradient = normal(2).to(gradient);
    step.moment1 = normal(3);
    step.moment2 = abs(normal(4));
    if (gradient != DType::f32) {
      step.compute = zeros({count}, {.dtype = gradient, .device = device});
    }
    backend_of(device).optimizer_step(step);
    if (step.compute.defined()) {
      EXPECT_EQ(step.compute.to_vector(), step.value.to(gradient).to_vector());
    }
    std::vector<double> all = step.value.to_vector();
    for (const Tensor& moment : {step.moment1, step.moment2}) {
      const std::vector<double> values = moment.to_vector();
      all.insert(all.end(), values.begin(), values.end());
    }
    const Tensor squares = zeros({1}, {.dtype = DType::f64, .device = device});
    backend_of(device).add_squares(step.gradient, static_cast<double*>(squares.raw()));
    all.push_back(std::sqrt(squares.item()) / 1000);
    return all;
  };
  for (const OptimizerKind kind :
       {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::rmsprop}) {
    for (const DType gradient : {DType::f32, DType::bf16}) {
      EXPECT_TRUE(close(on(gpu, kind, gradient), on(cpu_device, kind, gradient), 1e-6, 1))
          << static_cast<int>(kind) << " " << name_of(gradient);
    }
  }
}

// Backend::update of an arena's one or two runs against its parts on the CPU.
TEST_F(CudaWide, UpdatesOfWholeArenas) {
  const int64_t viewed = 64 * 3011, rest = 64 * 17;
  const auto on = [&](Device device, bool two, double clip) {
    const StepRule rule{.clip_norm = clip, .beta1 = 0.9, .beta2 = 0.999};
    StepMemory memory(device, {.inputs = {.learning_rate = 0.01}});
    const auto run = [&](int64_t count, DType gradient, uint64_t stream) {
      const auto normal = [&](uint64_t of) {
        return rand_normal({count}, 0, 1, 9, stream + of, {.device = cpu_device}).to(device);
      };
      OptimizerStep step{.kind = OptimizerKind::adam, .state = memory.state()};
      step.groups = from_vector({1, 0.1}, {1, 2}, {.dtype = DType::f64, .device = device});
      step.block_group = zeros({count / 64}, {.dtype = DType::u8, .device = device});
      step.value = normal(1);
      step.gradient = normal(2).to(gradient);
      step.moment1 = zeros({count}, {.device = device});
      step.moment2 = zeros({count}, {.device = device});
      if (gradient != DType::f32) {
        step.compute = zeros({count}, {.dtype = gradient, .device = device});
      }
      return step;
    };
    std::vector<OptimizerStep> runs = {run(viewed, two ? DType::bf16 : DType::f32, 10)};
    if (two) runs.push_back(run(rest, DType::f32, 20));
    for (int i = 0; i < 2; ++i) backend_of(device).update(rule, memory.state(), runs);
    std::vector<double> all;
    for (const OptimizerStep& step : runs) {
      for (const Tensor& part : {step.value, step.moment1, step.moment2, step.compute}) {
        if (!part.defined()) continue;
        const std::vector<double> values = part.to_vector();
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    const StepState state = memory.read();
    EXPECT_EQ(state.steps, 2);
    EXPECT_EQ(state.square_sum, 0);
    all.push_back(state.gradient_norm / 1000);
    all.push_back(state.gradient_factor);
    return all;
  };
  for (const bool two : {false, true}) {
    for (const double clip : {0.0, 1.0}) {
      EXPECT_TRUE(close(on(gpu, two, clip), on(cpu_device, two, clip), 1e-6, 1))
          << two << " " << clip;
    }
  }
}

TEST_F(CudaWide, ConditionalCopiesAndSwapsOfAnySize) {
  const Tensor condition = from_vector({1}, {1}, {.dtype = DType::i32, .device = gpu});
  for (const int64_t count : {1, 5, 4096, 1'000'001}) {
    const Tensor a = rand_uniform({count}, 0, 1, 1, 1, {.device = gpu});
    const Tensor b = rand_uniform({count}, 0, 1, 1, 2, {.device = gpu});
    const std::vector<double> first = a.to_vector(), second = b.to_vector();
    backend_of(gpu).swap(a, b);
    EXPECT_EQ(a.to_vector(), second);
    EXPECT_EQ(b.to_vector(), first);
    backend_of(gpu).copy_if(static_cast<const int32_t*>(condition.raw()), a.raw(), b.raw(),
                            a.bytes());
    EXPECT_EQ(b.to_vector(), second);
  }
}

}  // namespace
}  // namespace whisker::test
