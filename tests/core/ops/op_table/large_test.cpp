// Rows of the operator table at shapes that the definitions' small ones do not reach: threads,
// blocks and their last one, several chunks of rows, packs of 16 bytes and what fills none, long
// rows, every way of computing a convolution. Each device in each of its dtypes against the
// reference, forward and backward.
#include "core/autograd/autograd.h"
#include "core/cpu/cpu_backend.h"
#include "tests/core/cases/convolution_cases.h"
#include "tests/core/cases/pool_cases.h"
#include "tests/support/agreement.h"
#include "tests/support/devices.h"
#include "tests/support/operator_rows.h"
#include "tests/support/poisoned_memory.h"
#include "tests/support/tolerance.h"

#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace whisker::test {
namespace {

/// What the row asks for, each in its order; what is usual behind the last.
struct LargeCase {
  std::vector<Shape> shapes;
  int64_t terms = 1;     ///< of the longest sum, forward or backward
  double tolerance = 0;  ///< on the CPU, where it is more than rounding explains
  std::vector<int64_t> integers = {};
  std::vector<int> choices = {};
  std::optional<Axes> axes = {};
  bool also_of_data = false;  ///< once more with a first operand that needs no gradient
  bool many_blocks = false;   ///< for GPUs: to a CPU it is as the others
};

using Cases = std::vector<LargeCase>;

class LargeArguments final : public Arguments {
 public:
  LargeArguments(const LargeCase& large, DType dtype, Device device, bool of_data)
      : Arguments(7), large_(large), dtype_(dtype), device_(device), is_data_(of_data) {}

  Shape shape(const Shape& usual) override {
    return shapes_ < large_.shapes.size() ? large_.shapes[shapes_++] : usual;
  }
  Tensor operand(const char*, const Shape& shape, double low, double high) override {
    const Tensor x = constant(shape, low, high);
    if (std::exchange(is_data_, false)) return x;
    leaves_.push_back(x.set_requires_grad());
    return x;
  }
  /// Rounded once, so that all devices see the same numbers.
  Tensor constant(const Shape& shape, double low, double high) override {
    const TensorOptions host{.device = reference_device};
    const uint64_t stream = drawn_++;
    const bool normal = low == -1 && high == 1;
    const Tensor x =
        normal ? normal_numbers(shape, 7, stream) : rand_uniform(shape, low, high, 7, stream, host);
    const Tensor rounded = x.to(dtype_);
    return device_ == reference_device ? rounded.to(DType::f32) : rounded.to(device_);
  }
  Tensor index(const Shape& shape, int64_t extent) override {
    return Arguments::index(shape, extent).to(device_);
  }
  int64_t integer(int64_t usual, int64_t, int64_t) override {
    return integers_ < large_.integers.size() ? large_.integers[integers_++] : usual;
  }
  int choice(int usual, int) override {
    return choices_ < large_.choices.size() ? large_.choices[choices_++] : usual;
  }
  Axes axes(const Axes& usual) override { return large_.axes.value_or(usual); }

  const std::vector<Tensor>& leaves() const { return leaves_; }

 private:
  const LargeCase& large_;
  DType dtype_;
  Device device_;
  bool is_data_;  // the next operand
  uint64_t drawn_ = 0;
  size_t shapes_ = 0, integers_ = 0, choices_ = 0;
  std::vector<Tensor> leaves_;
};

Cases binary_cases() {
  const Shape large{3, 31, 29, 37};
  return {{{large, large}},
          {{large, {37}}, 2697},
          {{{3, 31, 29, 1}, large}, 37},
          {{{5, 1, 7}, {3, 7}}, 7},
          {{{}, {}}},
          {{{30, 1, 40, 8}, {20, 1, 8}}, 1200},
          // Packs of the last axis: both operands, one, neither, and off their multiples.
          {{{4, 31, 29, 24}, {4, 1, 1, 24}}, 899},
          {{{4, 31, 29, 24}, {24}}, 3596},
          {{{4, 31, 29, 24}, {4, 1, 1, 1}}, 21'576},
          {{{1, 31, 29, 1}, {4, 31, 29, 24}}, 96},
          {{{4, 31, 29, 21}, {4, 1, 1, 21}}, 899},
          {{{90, 1, 40}, {90, 33, 1}}, 40}};
}

Cases reduction_cases(bool of_sums) {
  Cases cases;
  const auto add = [&](const Shape& shape, const Axes& axes) {
    cases.push_back({{shape}, of_sums ? shape.count() : 1, 0, {}, {}, axes});
  };
  for (const Axes& axes : {Axes{}, Axes{0}, Axes{3}, Axes{1, 2}, Axes{0, 1, 2}, Axes{0, 2},
                           Axes{1, 3}, Axes{0, 1, 3}, Axes{2, 3}}) {
    add({5, 33, 17, 35}, axes);
  }
  for (const Axes& axes : {Axes{}, Axes{1}, Axes{3}, Axes{0, 1, 2}}) add({6, 50, 7, 64}, axes);
  // Channels of few and many packs, over rows of one image or of all: one part to many.
  const Shape images[] = {{2, 12'544, 8}, {30, 49, 96}, {3, 49, 1152},  {70, 49, 3},
                          {5, 1, 24},     {900, 3, 16}, {1, 20'011, 12}};
  for (const Shape& shape : images) add(shape, Axes{1});
  // Long and short rows that are whole packs.
  for (const Shape& shape : {Shape{3000, 96}, {2000, 8}, {3, 65'536}}) add(shape, Axes{1});
  add({9, 40, 33, 16}, Axes{0, 2});
  add({9, 40, 33, 16}, Axes{1, 3});
  return cases;
}

Cases sum_cases() {
  Cases cases = reduction_cases(true);
  cases.push_back({{{3'000'001}}, 3'000'001, 0, {}, {}, Axes{}});
  cases.push_back({{{2, 1'000'003}}, 1'000'003});
  cases.push_back({{{100'003, 40}}, 100'003, 0, {}, {}, Axes{0}});
  cases.push_back({{{50'021, 3}}, 50'021, 0, {}, {}, Axes{0}});
  cases.push_back({{{40'009, 96}}, 40'009, 0, {}, {}, Axes{0}});
  return cases;
}

/// Channels of few and many packs or of none, over the rows of an image or of all, in one part and
/// in many; whole rows, long and short, in packs and in single elements; two passes.
Cases sum_products_cases() {
  Cases cases;
  const auto add = [&](const Shape& shape, const Shape& to) {
    cases.push_back({{shape, shape, to}, shape.count() / std::max<int64_t>(to.count(), 1)});
  };
  add({2, 112, 112, 8}, {2, 1, 1, 8});
  add({3, 56, 55, 96}, {3, 1, 1, 96});
  add({30, 7, 7, 1152}, {30, 1, 1, 1152});
  add({300, 7, 7, 24}, {300, 1, 1, 24});
  add({5, 13, 14, 35}, {5, 1, 1, 35});
  add({20, 7, 7, 100}, {20, 1, 1, 100});
  add({40'009, 96}, {96});
  add({50'021, 3}, {3});
  add({2000, 8}, {2000, 1});
  add({3, 65'536}, {3, 1});
  add({7, 10'003}, {7, 1});
  add({9, 40, 33, 16}, {40, 1, 16});
  add({1'000'003}, {});
  return cases;
}

Cases argmax_cases() {
  Cases cases;
  for (const Shape& shape : {Shape{3000, 3}, {500, 1000}, {3, 70'001}, {40, 30, 9}}) {
    for (int64_t axis = 0; axis < shape.rank(); ++axis) cases.push_back({{shape}, 1, 0, {axis}});
  }
  return cases;
}

Cases linear_cases() {
  Cases cases;
  for (const int bias : {0, 1}) {
    for (const Activation kind : {Activation::none, Activation::relu, Activation::tanh}) {
      cases.push_back({{{67, 130}, {51, 130}}, 130, 0, {}, {bias, static_cast<int>(kind)}});
    }
  }
  return cases;
}

Cases convolution_cases() {
  constexpr int64_t most_on_cpu = 24'000;  // elements of images for algorithms of GPUs
  Cases cases;
  for (const bool further : {false, true}) {
    for (const ConvolutionCase& c : further ? further_convolutions() : convolutions()) {
      const Conv2dOptions& o = c.options;
      for (const int bias : {1, 0}) {
        // Winograd's transforms cost up to three decimal digits: see Note [Winograd tolerance].
        cases.push_back(
            {{c.x, c.w},
             longest_sum(c),
             1e-4,
             {o.stride.h, o.stride.w, o.padding.h, o.padding.w, o.dilation.h, o.dilation.w,
              o.groups},
             {static_cast<int>(o.padding_mode), static_cast<int>(o.activation.kind), bias}});
        cases.back().also_of_data = bias == 1;
        cases.back().many_blocks = !further && c.x.count() > most_on_cpu;
      }
    }
  }
  return cases;
}

Cases pool_cases() {
  Cases cases;
  const auto add = [&](const Shape& x, const Pool2dOptions& o) {
    const Pair stride = o.stride.value_or(o.kernel);
    cases.push_back({{x},
                     x[1] * x[2],
                     0,
                     {o.kernel.h, o.kernel.w, stride.h, stride.w, o.padding.h, o.padding.w},
                     {static_cast<int>(o.padding_mode), o.ceil, o.count_padding}});
  };
  std::vector<Pool2dOptions> windows = small_windows();
  // The whole image, and large windows beside each other.
  windows.insert(windows.end(),
                 {{.kernel = 17, .stride = Pair(3), .padding = 8},
                  {.kernel = {33, 30}},
                  {.kernel = {35, 40}, .stride = Pair(1), .padding = {1, 5}},
                  {.kernel = {35, 40}, .stride = Pair(1), .padding = {1, 5}, .count_padding = true},
                  {.kernel = {16, 15}},
                  {.kernel = {9, 7},
                   .stride = Pair(11, 8),
                   .padding = {4, 3},
                   .ceil = true,
                   .count_padding = true}});
  for (const Pool2dOptions& options : windows) {
    for (const int64_t channels : {3, 16, 35, 72}) add({3, 33, 30, channels}, options);
  }
  add({2, 112, 112, 8}, {.kernel = 112});
  add({30, 7, 7, 160}, {.kernel = 7});
  return cases;
}

/// (rows, channels) or images, with and without a residual, in training and in inference.
Cases batch_norm_cases() {
  using enum Activation;
  Cases cases;
  const auto add = [&](std::span<const Shape> shapes, std::initializer_list<Activation> kinds,
                       bool many_blocks = false) {
    for (const Shape& shape : shapes) {
      for (const Activation kind : kinds) {
        for (const int training : {1, 0}) {
          for (const int residual : {0, 1}) {
            if (residual == 1 && kind != none && kind != relu) continue;  // an operator of its own
            cases.push_back({{shape},
                             (many_blocks ? 16 : 1) * shape.count() / shape[-1],
                             0,
                             {},
                             {training, static_cast<int>(kind), residual}});
            cases.back().many_blocks = many_blocks;
          }
        }
      }
    }
  };
  // Packs side by side from 1 to more than a warp, one chunk of rows to many, no packs.
  const Shape of_packs[] = {{2000, 8}, {5000, 64}, {700, 256}, {300, 640},    {40, 2048},
                            {3000, 3}, {50, 100},  {20, 24},   {4, 9, 9, 48}, {5, 13, 14, 35}};
  add(of_packs, {none});
  // Few elements where relu's sign or a kink counts: beside 0 it is a matter of rounding.
  const Shape few[] = {{40, 8}, {37, 3}, {60, 64}, {30, 120}, {5, 13, 14, 16}};
  add(few, {none, relu, relu6, hard_swish});
  const Shape of_odd_packs[] = {{130, 24}, {61, 72}, {50, 136}, {33, 200}, {300, 1}};
  add(of_odd_packs, {none, relu});
  const Shape smooth[] = {{700, 256}, {300, 72}, {130, 960}, {50, 100}, {5, 13, 14, 35}};
  add(smooth, {silu});
  // Several chunks of rows and tiles of channels, whole packs of channels or not: few rows suffice
  // for that. (18001, 120) and (2203, 127) have a chunk for each multiprocessor of a large GPU, in
  // the packs of every type and without packs.
  const Shape of_chunks[] = {{70'001, 1},   {20'011, 3}, {10'009, 16}, {4003, 72}, {1201, 120},
                             {18'001, 120}, {2203, 127}, {601, 440},   {901, 520}, {601, 960},
                             {97, 4104},    {503, 515},  {4001, 64},   {300, 2048}};
  add(of_chunks, {none}, true);
  return cases;
}

/// (rows, features): rows that 1 to 32 threads hold, in 1 to 8 packs each, some without a last
/// pack; longer ones and odd ones; few rows, and more than a grid takes at once.
Cases layer_norm_cases() {
  const Shape shapes[] = {{3000, 64},  {100, 768}, {30, 5000}, {200, 33}, {5, 3001},
                          {2, 7, 512}, {130, 257}, {9000, 8},  {500, 16}, {130, 24},
                          {9, 40},     {7000, 96}, {90, 100},  {70, 128}, {3000, 384},
                          {1, 1000},   {30, 1024}, {20, 2048}, {9, 2056}};
  Cases cases;
  for (const Shape& shape : shapes) {
    cases.push_back({{shape}, shape.count() / shape[-1] + shape[-1]});
  }
  return cases;
}

/// Groups of fewer channels than a pack, of packs, of all channels and of one; one chunk of
/// positions to many, one example to more than a grid has, no packs.
Cases group_norm_cases() {
  const std::pair<Shape, int64_t> shapes_and_groups[] = {
      {{3, 56, 55, 64}, 32},  {{2, 28, 28, 256}, 32}, {{40, 7, 7, 640}, 32},
      {{2, 15, 13, 2048}, 1}, {{1, 130, 120, 24}, 3}, {{5, 13, 14, 35}, 7},
      {{4, 29, 31, 3}, 3},    {{66'000, 16}, 2},      {{300, 640}, 20}};
  Cases cases;
  for (const auto& [shape, groups] : shapes_and_groups) {
    const int64_t positions = shape.count() / (shape[0] * shape[-1]);
    cases.push_back(
        {{shape}, shape.count() / shape[-1] + positions * shape[-1] / groups, 0, {groups}});
  }
  return cases;
}

Cases softmax_cases() {
  Cases cases;
  for (const Shape& shape : {Shape{3000, 2}, {300, 10}, {64, 1000}, {3, 5000}, {4, 60, 70}}) {
    for (const int64_t axis : {-1, 0, 1}) {
      cases.push_back({{shape}, shape[static_cast<int>(axis)], 0, {axis}});
    }
  }
  return cases;
}

/// With dropout, with a bias, with neither, in heads that a GPU's fused kernels take and in others.
Cases attention_cases() {
  return {{{{3, 130, 96}}, 200, 0, {2}},
          {{{1, 65, 3 * 64}}, 130, 0, {1}, {1, 0}},
          {{{3, 197, 3 * 192}}, 300, 0, {3}, {0, 0}},
          {{{2, 300, 3 * 128}}, 430, 0, {1}, {0, 0}},
          {{{2, 128, 3 * 80}}, 170, 0, {2}, {0, 0}},
          {{{2, 131, 3 * 64}}, 170, 0, {2}, {0, 1}},
          {{{2, 64, 3 * 64}}, 130, 0, {2}, {0, 0}},
          {{{2, 70, 3 * 12}}, 80, 0, {3}, {0, 0}}};
}

Cases cross_entropy_cases() {
  Cases cases;
  for (const Shape& shape : {Shape{20'000, 2}, {4096, 10}, {256, 1000}, {7, 3000}}) {
    // By classes, by weighted classes, by probabilities.
    for (const std::vector<int>& choices : {std::vector{0, 0}, {0, 1}, {1, 0}}) {
      cases.push_back({{shape}, shape[0] + shape[1], 0, {}, choices});
    }
  }
  return cases;
}

Cases cases_of(std::string_view op) {
  using enum Activation;
  if (op == "mul") {
    Cases cases = binary_cases();
    // More elements, and more packs, than a GPU's threads compute one of each.
    cases.push_back({{{30, 64, 64, 3}, {30, 1, 1, 3}}, 4096});
    cases.push_back({{{63, 67, 67, 8}, {63, 1, 1, 8}}, 4489});
    return cases;
  }
  for (const char* name : {"add", "sub", "div", "maximum", "minimum", "equal", "not_equal", "less",
                           "less_equal", "greater", "greater_equal"}) {
    if (op == name) return binary_cases();
  }
  for (const char* name :
       {"affine",  "exp",   "log",        "sqrt",  "reciprocal",   "abs",       "pow",
        "clamp",   "where", "activation", "relu",  "leaky_relu",   "gelu",      "silu",
        "sigmoid", "tanh",  "softplus",   "relu6", "hard_sigmoid", "hard_swish"}) {
    if (op == name) return {{{{41, 1031}}}};
  }
  const std::pair<std::string_view, Cases> others[] = {
      {"cast", {{{{41, 1031}}, 1, 0, {}, {static_cast<int>(DType::f64)}}}},
      {"dropout", {{{{3, 40'001}}}}},
      {"drop_path", {{{{90, 3, 401}}}}},
      {"sum", sum_cases()},
      {"mean", reduction_cases(true)},
      {"max", reduction_cases(false)},
      {"min", reduction_cases(false)},
      {"var", {{{{5, 33, 17, 35}}, 33}}},
      {"argmax", argmax_cases()},
      {"sum_to", {{{{50, 33, 24}, {33, 1}}, 1200}}},
      {"sum_products_to", sum_products_cases()},
      {"reshape", {{{{50, 33, 24}}}}},
      {"transpose",
       {{{{7, 33, 5, 129}}, 1, 0, {2, 0, 3, 1}}, {{{20, 30, 40, 6}}, 1, 0, {3, 1, 0, 2}}}},
      {"broadcast_to", {{{{20, 1, 16}, {20, 30, 16}}, 30}}},
      {"concat", {{{{40, 3, 300}, {40, 5, 300}}}, {{{50, 33, 24}, {50, 33, 8}}, 1, 0, {2}}}},
      {"slice", {{{{9, 210, 33}}, 1, 0, {1, 5, 200}}, {{{50, 33, 24}}, 1, 0, {2, 3, 5}}}},
      {"split", {{{{9, 210, 33}}, 1, 0, {1, 13, 197}}}},
      {"pad",
       {{{{20, 30, 16}}, 1, 0, {1, 2, 3, 0, 8, 8}}, {{{9, 21, 33}}, 1, 0, {1, 2, 0, 3, 4, 0}}}},
      {"gather", {{{{25, 40, 3}}, 40}}},
      {"embedding",
       {{{{40, 1}, {30, 50}}, 1500},
        {{{40, 5}, {30, 50}}, 1500},
        {{{40, 64}, {30, 50}}, 1500},
        {{{40, 300}, {30, 50}}, 1500}}},
      {"one_hot", {{{{300, 7}}}}},
      {"matmul",
       {{{{129, 65}, {65, 77}}, 129},
        {{{6, 33, 17}, {6, 17, 29}}, 33},
        {{{6, 33, 17}, {17, 29}}, 200},
        {{{6, 1, 33, 17}, {5, 17, 9}}, 200},
        {{{2, 3}, {3, 2}}, 3}}},
      {"linear", linear_cases()},
      {"conv2d", convolution_cases()},
      {"conv2d_with_sums", {{{{2, 14, 14, 64}, {64, 3, 3, 64}}, 640, 1e-4}}},
      {"max_pool2d", pool_cases()},
      {"avg_pool2d", pool_cases()},
      {"adaptive_avg_pool2d", {{{{4, 33, 30, 35}}, 60, 0, {5, 6}}}},
      {"global_avg_pool2d", {{{{4, 9, 7, 37}}, 63}, {{{3, 56, 55, 24}}, 3080}}},
      {"recurrent", {{{{5, 9, 33}}, 400}}},
      {"recurrent_gru", {{{{5, 9, 33}}, 400}}},
      {"recurrent_tanh", {{{{5, 9, 33}}, 400}}},
      {"batch_norm", batch_norm_cases()},
      {"add_batch_norms", {{{{2000, 64}}, 2000}, {{{300, 5}}, 300}}},
      {"layer_norm", layer_norm_cases()},
      {"group_norm", group_norm_cases()},
      {"attention", attention_cases()},
      {"softmax", softmax_cases()},
      {"log_softmax", softmax_cases()},
      {"cross_entropy", cross_entropy_cases()},
      {"binary_cross_entropy_with_logits", {{{{10'007}}, 10'007}, {{{333, 41}}, 13'653}}},
      {"mse_loss", {{{{333, 41}}, 13'653}}},
  };
  for (const auto& [name, cases] : others) {
    if (op == name) return cases;
  }
  return {};
}

/// Rounding between their parts shows, or decides which element wins or passes a relu: tests of
/// their own (tests/core/ops/fused, tests/core/cuda) choose numbers where it does not.
const std::set<std::string_view> compared_elsewhere = {"conv2d_max_pool2d", "batch_norm_max_pool2d",
                                                       "batch_norm_excite", "batch_norm_conv2d"};

using Results = std::vector<std::vector<double>>;

/// y, then the gradients of the operands; `of_data`: but that of the first.
Results run(const OperatorRow& row, const LargeCase& large, DType dtype, Device device,
            bool of_data = false) {
  LargeArguments arguments(large, dtype, device, of_data);
  const Tensor y = row.call(arguments);
  Results values{y.to_vector()};
  if (!y.requires_grad()) return values;
  const Tensor dy = normal_numbers(y.shape(), 8, 0);
  backward(y, {.gradient = dy.to(dtype).to(y.dtype()).to(device)});
  for (const Tensor& leaf : arguments.leaves()) values.push_back(leaf.grad().to_vector());
  return values;
}

void expect_agreement_of(const OperatorRow& row, DType dtype, Device device,
                         const std::vector<CpuOptions>& options = {CpuOptions{}}) {
  const PoisonedMemory poisoned(device);
  const Cases cases = cases_of(row.name);
  EXPECT_EQ(cases.empty(), compared_elsewhere.contains(row.name)) << "an operator without cases";
  for (size_t i = 0; i < cases.size(); ++i) {
    const LargeCase& large = cases[i];
    const bool on_cpu = device == cpu_device;
    if (large.many_blocks && on_cpu) continue;
    SCOPED_TRACE(
        fmt::format("case {}: {} {} on {}", i, fmt::join(large.shapes, " "), dtype, device));
    const Results want = run(row, large, dtype, reference_device);
    const double allowed = std::max(on_cpu ? large.tolerance : 0, tolerance(dtype, large.terms));
    for (const CpuOptions& how : options) {
      set_cpu_options(how);
      expect_results_agree(want, run(row, large, dtype, device), allowed);
      if (!large.also_of_data) continue;
      Results others = want;
      others.erase(others.begin() + 1);
      expect_results_agree(others, run(row, large, dtype, device, true), allowed);
    }
  }
  set_cpu_options({});
}

using LargeShapes = EveryOperator;

TEST_P(LargeShapes, OnTheCpu) {
  expect_agreement_of(GetParam(), DType::f32, cpu_device);
}

/// In the CPU's own bf16 instructions, where it has them, and through f32.
TEST_P(LargeShapes, OnTheCpuInBf16) {
  expect_agreement_of(GetParam(), DType::bf16, cpu_device,
                      {{.deterministic = true, .native_bf16 = true},
                       {.deterministic = true, .native_bf16 = false}});
}

TEST_P(LargeShapes, OnCuda) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: no GPU (" << why_no_cuda() << ")";
  const Device gpu{DeviceKind::cuda, 0};
  compute_exactly(gpu);
  for (const DType dtype : test_dtypes(gpu)) expect_agreement_of(GetParam(), dtype, gpu);
}

INSTANTIATE_TEST_SUITE_P(, LargeShapes, EveryOperator::rows(), EveryOperator::name);

}  // namespace
}  // namespace whisker::test
