// See Note [Padding that differs by side].
#include "core/cuda/convolution/cudnn/padding_check.h"

#include "core/cuda/autotune/stopwatch.h"
#include "core/cuda/convolution/cudnn/cudnn_convolution.h"
#include "core/cuda/runtime/check.h"
#include "core/tensor/dtype.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace whisker::cuda {
namespace {

constexpr int64_t most_images = 2;
constexpr int64_t most_positions = 4;  // of the result, along each axis

// Shortens a convolution along one axis.
void shorten(int64_t& in, int64_t& out, int64_t stride) {
  const int64_t unwanted = std::min(out - most_positions, (in - 1) / stride);
  if (unwanted <= 0) return;
  in -= unwanted * stride;
  out -= unwanted;
}

ConvolutionRequest small(ConvolutionRequest request) {
  Conv2dGeometry& g = request.geometry;
  g.n = std::min(g.n, most_images);
  shorten(g.h, g.h_out, g.stride_h);
  shorten(g.w, g.w_out, g.stride_w);
  return request;
}

// Rounding, even to tf32 and bf16, is far below this fraction of the largest value; ignored padding
// changes values by more.
bool agree(const std::vector<float>& got, const std::vector<float>& expected) {
  constexpr float tolerance = 1.0f / 32;
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::fabs(value));
  return std::equal(got.begin(), got.end(), expected.begin(), expected.end(),
                    [&](float a, float b) { return std::fabs(a - b) <= tolerance * largest; });
}

}  // namespace

PaddingCheck::PaddingCheck(Context& context, Allocator& allocator,
                           const ConvolutionRequest& request)
    : context_(context), allocator_(allocator), small_(small(request)) {}

void PaddingCheck::prepare() {
  const Conv2dGeometry& g = small_.geometry;
  const int64_t of_x = g.n * g.h * g.w * g.c;
  const int64_t of_w = g.c_out * g.kernel_h * g.kernel_w * (g.c / g.groups);
  const int64_t of_y = g.n * g.h_out * g.w_out * g.c_out;
  // One allocation with different numbers everywhere: a wrong engine may read past an operand.
  const auto aligned = [](int64_t count) { return (count + 127) / 128 * 128; };
  const int64_t y_at = aligned(of_x);
  const int64_t w_at = y_at + aligned(of_y);
  const int64_t b_at = w_at + aligned(of_w);
  const int64_t count = b_at + aligned(g.c_out) + of_x;
  const auto element_bytes = static_cast<int64_t>(size_of(g.dtype));
  memory_.emplace(allocator_, count * element_bytes);
  kernels::noise(context_.stream(), g.dtype, 1, memory_->data(), count);
  const auto at = [&](int64_t element) -> void* {
    return static_cast<std::byte*>(memory_->data()) + element * element_bytes;
  };
  operands_ = {.x = at(0), .w = at(w_at), .b = g.bias ? at(b_at) : nullptr, .y = at(y_at)};
  switch (small_.pass) {
    case ConvolutionPass::forward:
      result_ = operands_.y;
      count_ = of_y;
      break;
    case ConvolutionPass::backward_input:
      result_ = operands_.x;
      count_ = of_x;
      break;
    case ConvolutionPass::backward_weights:
      result_ = operands_.w;
      count_ = of_w;
      break;
  }
  graph_ = convolution_graph({.handle = context_.cudnn()}, small_);
  // Not null: the direct kernel computes every request that has engines and unequal padding.
  const ConvolutionAlgorithmPointer direct = direct_convolution(small_);
  if (!direct) fail(ErrorKind::internal, "no padding check for {}", small_.describe());
  expected_ = result_of(*direct);
}

std::vector<float> PaddingCheck::result_of(const ConvolutionAlgorithm& algorithm) {
  const cudaStream_t stream = context_.stream();
  const size_t bytes = static_cast<size_t>(count_) * size_of(small_.geometry.dtype);
  const Scratch workspace(allocator_, algorithm.workspace_bytes());
  check(cudaMemsetAsync(result_, 0xff, bytes, stream), "filling a result");  // with NaN
  algorithm.run({.stream = stream,
                 .multiprocessors = context_.multiprocessors(),
                 .capability = context_.capability()},
                operands_, workspace.data());
  std::vector<std::byte> raw(bytes);
  check(cudaMemcpyAsync(raw.data(), result_, bytes, cudaMemcpyDeviceToHost, stream),
        "reading a result");
  check(cudaStreamSynchronize(stream), "checking an engine's padding");
  return visit(small_.geometry.dtype, [&]<class T>() {
    const T* const first = reinterpret_cast<const T*>(raw.data());
    std::vector<float> values(static_cast<size_t>(count_));
    std::transform(first, first + count_, values.begin(),
                   [](T value) { return static_cast<float>(value); });
    return values;
  });
}

bool PaddingCheck::passed_by(const cudnn::EngineChoice& engine) {
  if (pads_evenly(small_.geometry)) return true;
  if (!memory_) prepare();
  const auto algorithm = graph_ ? CudnnConvolution::make(graph_, small_, engine) : nullptr;
  if (!algorithm) return false;
  try {
    return agree(result_of(*algorithm), expected_);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error&) {
    return false;  // the engine fails
  }
}

}  // namespace whisker::cuda
