// What the rows of the operator table do not reach on a GPU: gradients in two parts, ties, views
// off the 16-byte grid, updates of many parameters, activations of any number. Against the
// reference or the CPU; masks against the host's, bit by bit.
#include "core/autograd/autograd.h"
#include "core/backend/optimizer_step.h"
#include "core/backend/training_step.h"
#include "core/ops/ops.h"
#include "core/parameters/step_memory.h"
#include "tests/core/cuda/gpu.h"
#include "tests/support/agreement.h"
#include "tests/support/tolerance.h"
#include "tests/support/update_state.h"

#include <cmath>

namespace whisker::test {
namespace {

using Operands = const std::vector<Tensor>&;

constexpr DType wide_dtypes[] = {DType::f32, DType::bf16, DType::f16};

void expect_wide(const std::string& name, const std::vector<Shape>& shapes, int64_t terms,
                 const TensorFunction& function) {
  for (const DType dtype : wide_dtypes) {
    expect_agreement({.name = fmt::format("{} {}", name, dtype),
                      .shapes = shapes,
                      .function = function,
                      .tolerance = tolerance(dtype, terms),
                      .dtype = dtype,
                      .device = gpu});
  }
}

class CudaWide : public GpuTest {};

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

// Squeeze-and-excitation: the gate's gradient is a sum of products, the mean's is added in place to
// the other; in packs and in single elements, more than a GPU's threads compute one of each.
TEST_F(CudaWide, GateByTheMean) {
  for (const Shape& shape : {Shape{40, 56, 56, 24}, {30, 64, 64, 3}, {9, 7, 7, 1152}}) {
    expect_wide("gate", {shape}, shape[1] * shape[2], [&](Operands x) {
      const Tensor h = affine(x[0], 2, 0);
      return mul(h, sigmoid(mean(h, {1, 2}, {.keep_axes = true})));
    });
  }
}

TEST_F(CudaWide, ArgmaxOfTiesIsTheFirst) {
  for (const Shape& shape :
       {Shape{3000, 3}, Shape{500, 1000}, Shape{3, 70'001}, Shape{40, 30, 9}}) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      EXPECT_EQ(argmax(zeros(shape, {.device = gpu}), axis).to_vector(),
                std::vector<double>(static_cast<size_t>(shape.count() / shape[axis]), 0));
    }
  }
}

TEST_F(CudaWide, DropoutDrawsTheHostsMask) {
  for (const int64_t count : {1, 3, 4, 1000, 100'001}) {
    for (const DType dtype : wide_dtypes) {
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
  for (const DType dtype : wide_dtypes) {
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
}

// The same elements in packs and one by one.
TEST_F(CudaWide, BroadcastsAndReductionsOnAndOffTheGrid) {
  for (const DType dtype : wide_dtypes) {
    const Shape shape{30, 41, 24};
    const int64_t count = shape.count();
    const Tensor x =
        rand_normal({count + 1}, 0, 1, 5, 6, {.device = reference_device}).to(dtype).to(gpu);
    const Tensor off = reshape(slice(x, 0, 1, count + 1), shape), on = off.clone();
    for (const Shape& other : {Shape{30, 1, 24}, {24}, {30, 1, 1}, {41, 1}}) {
      const Tensor b = rand_normal(other, 0, 1, 5, 7, {.device = gpu}).to(dtype);
      EXPECT_EQ(mul(on, b).to_vector(), mul(off, b).to_vector())
          << fmt::format("{} {}", other, dtype);
      EXPECT_EQ(sub(b, on).to_vector(), sub(b, off).to_vector())
          << fmt::format("{} {}", other, dtype);
    }
    for (const Axes& axes : {Axes{}, Axes{0}, Axes{1}, Axes{2}, Axes{0, 2}}) {
      EXPECT_EQ(max(on, axes).to_vector(), max(off, axes).to_vector()) << name_of(dtype);
      EXPECT_TRUE(
          close(sum(off, axes).to_vector(), sum(on, axes).to_vector(), tolerance(dtype, count), 1))
          << name_of(dtype);
    }
  }
}

// One NaN among many rows, whose parts several blocks reduce.
TEST_F(CudaWide, ExtremaOfNaNAreNaN) {
  const int64_t rows = 20'000, channels = 24;
  std::vector<double> values(static_cast<size_t>(rows * channels));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 251);
  const auto nan_at = [&](int64_t row, int64_t channel) {
    values[static_cast<size_t>(row * channels + channel)] = NAN;
  };
  nan_at(0, 1);
  nan_at(13'333, 5);
  nan_at(rows - 1, 23);
  for (const DType dtype : wide_dtypes) {
    const Tensor x = from_vector(values, {rows, channels}).to(dtype).to(gpu);
    for (const auto& reduced : {max(x, {0}), min(x, {0})}) {
      const std::vector<double> y = reduced.to_vector();
      for (size_t channel = 0; channel < y.size(); ++channel) {
        EXPECT_EQ(std::isnan(y[channel]), channel == 1 || channel == 5 || channel == 23)
            << channel << " " << name_of(dtype);
      }
    }
    EXPECT_TRUE(std::isnan(max(x, {}).item())) << name_of(dtype);
  }
}

// Also where the last of many blocks combines the parts.
TEST_F(CudaWide, SumsRepeatBitByBit) {
  for (const Shape& shape : {Shape{1, 400'000, 96}, {128, 3136, 24}, {1, 5'000'000, 1}}) {
    const Tensor x = rand_normal(shape, 0, 1, 5, 6, {.device = gpu});
    const std::vector<double> first = sum(x, {1}).to_vector();
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(sum(x, {1}).to_vector(), first) << fmt::format("{}", shape);
    }
  }
}

// Infinities, NaN and numbers whose exponentials overflow or vanish, as the reference has them; in
// the left tails of gelu and silu the small results are exact relative to themselves.
TEST_F(CudaWide, ActivationsFromTailToTail) {
  std::vector<double> values{INFINITY, -INFINITY, NAN,  0,    -0.0, 1e-30,
                             -1e-30,   5e4,       -5e4, 1e30, -1e30};
  for (int i = -1100; i <= 1100; ++i) values.push_back(i / 64.0);
  const auto count = static_cast<int64_t>(values.size());
  for (const DType dtype : wide_dtypes) {
    for (const Activation kind :
         {Activation::gelu, Activation::silu, Activation::sigmoid, Activation::softplus}) {
      SCOPED_TRACE(fmt::format("activation {} {}", static_cast<int>(kind), dtype));
      const auto on = [&](Device device) {
        const Tensor rounded = from_vector(values, {count}, {.device = reference_device}).to(dtype);
        Tensor x = device == gpu ? rounded.to(gpu) : rounded.to(DType::f32);
        x = x.detach().set_requires_grad();
        const Tensor y = activation(x, {kind});
        backward(y, {.gradient = ones({count}, {.dtype = x.dtype(), .device = device})});
        return std::pair(y.to_vector(), x.grad().to_vector());
      };
      const auto want = on(reference_device), got = on(gpu);
      for (size_t i = 0; i < values.size(); ++i) {
        const auto expect_near = [&](double a, double b, double allowed, const char* what) {
          const bool same =
              a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= allowed;
          EXPECT_TRUE(same) << what << " of " << values[i] << ": expected " << a << ", got " << b;
        };
        const double y = want.first[i], bound = tolerance(dtype, 1);
        const bool tail = values[i] >= -9 && values[i] < 0 && kind != Activation::softplus;
        const double smallest = dtype == DType::f16 ? 0x1p-24 : 0;
        expect_near(y, got.first[i],
                    tail ? (1e-5 + unit_roundoff(dtype)) * std::fabs(y) + smallest
                         : bound * std::max(1.0, std::fabs(y)),
                    "y");
        expect_near(want.second[i], got.second[i], bound, "gradient");
      }
    }
  }
}

// Millions of parameters, several groups: the same update as the CPU's.
TEST_F(CudaWide, OptimizerAndNorm) {
  const int64_t count = 64 * 30'011;
  std::vector<Tensor> numbers;  // drawing them takes longer than all updates
  for (const uint64_t stream : {1, 2, 3, 4}) {
    numbers.push_back(rand_normal({count}, 0, 1, 9, stream, {.device = cpu_device}));
  }
  const auto on = [&](Device device, OptimizerKind kind, DType gradient) {
    StepMemory memory(device);
    OptimizerStep step{.kind = kind, .momentum = 0.9, .state = memory.state()};
    memory.write(update_state(step, 2, 0.01, 0.5));
    std::vector<double> groups(static_cast<size_t>(count / 64));
    for (size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<double>(i / 7 % 3);
    step.groups =
        from_vector({1, 0.1, 0.5, 0, 0.1, 0.01}, {3, 2}, {.dtype = DType::f64, .device = device});
    step.block_group = from_vector(groups, {count / 64}, {.dtype = DType::u8, .device = device});
    step.value = numbers[0].clone().to(device);
    step.gradient = numbers[1].to(device).to(gradient);
    step.moment1 = numbers[2].clone().to(device);
    step.moment2 = abs(numbers[3].to(device));
    if (gradient != DType::f32) {
      step.compute = zeros({count}, {.dtype = gradient, .device = device});
    }
    backend_of(device).training_step().optimizer_step(step);
    if (step.compute.defined()) {
      EXPECT_EQ(step.compute.to_vector(), step.value.to(gradient).to_vector());
    }
    std::vector<double> all = step.value.to_vector();
    for (const Tensor& moment : {step.moment1, step.moment2}) {
      const std::vector<double> values = moment.to_vector();
      all.insert(all.end(), values.begin(), values.end());
    }
    const Tensor squares = zeros({1}, {.dtype = DType::f64, .device = device});
    backend_of(device).training_step().add_squares(step.gradient,
                                                   static_cast<double*>(squares.raw()));
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

// TrainingStepKernels::update of an arena's one or two runs against its parts on the CPU.
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
    TrainingStepKernels& kernels = backend_of(device).training_step();
    for (int i = 0; i < 2; ++i) kernels.update(rule, memory.state(), runs);
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
    backend_of(gpu).training_step().swap(a, b);
    EXPECT_EQ(a.to_vector(), second);
    EXPECT_EQ(b.to_vector(), first);
    backend_of(gpu).training_step().copy_if(static_cast<const int32_t*>(condition.raw()), a.raw(),
                                            b.raw(), a.bytes());
    EXPECT_EQ(b.to_vector(), second);
  }
}

}  // namespace
}  // namespace whisker::test
