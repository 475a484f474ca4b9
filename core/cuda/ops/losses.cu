// Softmax and the losses, without overflow: the largest logit is subtracted before exp. A loss and
// its gradient are one kernel: each block stores its part of the sum, and the last block to finish
// adds the parts up in order.
#include "core/backend/losses.h"
#include "core/cuda/device_code/activations.cuh"
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/device_code/group.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/ops/columns.cuh"
#include "core/cuda/ops/launchers.h"
#include "core/cuda/runtime/fault.h"

namespace whisker::cuda {
namespace {

/// log(sum(exp(x))) = largest + log_sum; two numbers, since their sum would be rounded.
struct LogSumExp {
  float largest, log_sum;
  __device__ float log_probability(float x) const { return (x - largest) - log_sum; }
};

// log(sum(exp)) of at(0), ..., at(count - 1), by G threads.
template <int G, class At>
__device__ LogSumExp log_sum_exp(int64_t count, int lane, const At& at) {
  const float largest = largest_of<G>(count, lane, at);
  float sum = 0;
  for (int64_t c = lane; c < count; c += G) sum += expf(at(c) - largest);
  return {largest, logf(group_sum<G>(sum))};
}

template <class T, int G>
__global__ void __launch_bounds__(block_threads)
    softmax_kernel(SoftmaxGeometry g, const T* x, T* y) {
  for_each_column<G>(g.outer * g.inner, [&](int64_t column, int lane) {
    const int64_t first = first_element(g, column);
    const auto at = [&](int64_t c) { return to_f32(x[first + c * g.inner]); };
    const LogSumExp norm = log_sum_exp<G>(g.classes, lane, at);
    for (int64_t c = lane; c < g.classes; c += G) {
      const float log_probability = norm.log_probability(at(c));
      y[first + c * g.inner] = from_f32<T>(g.log ? log_probability : expf(log_probability));
    }
  });
}

template <class T, int G>
__global__ void __launch_bounds__(block_threads)
    softmax_backward_kernel(SoftmaxGeometry g, const T* y, const T* dy, T* dx) {
  for_each_column<G>(g.outer * g.inner, [&](int64_t column, int lane) {
    const int64_t first = first_element(g, column);
    float sum = 0;
    for (int64_t c = lane; c < g.classes; c += G) {
      const int64_t i = first + c * g.inner;
      sum += g.log ? to_f32(dy[i]) : to_f32(dy[i]) * to_f32(y[i]);
    }
    sum = group_sum<G>(sum);
    for (int64_t c = lane; c < g.classes; c += G) {
      const int64_t i = first + c * g.inner;
      const float d = to_f32(dy[i]);
      const float value = to_f32(y[i]);
      dx[i] = from_f32<T>(g.log ? d - expf(value) * sum : value * (d - sum));
    }
  });
}

// 1024 is where the rounding of an f32 sum reaches that of an f16 probability.
template <class T, int G>
__global__ void __launch_bounds__(block_threads)
    near_zero_kernel(int64_t rows, int64_t columns, const T* x, T* y) {
  for_each_column<G>(rows, [&](int64_t row, int lane) {
    const int64_t first = row * columns;
    const auto at = [&](int64_t c) { return to_f32(x[first + c]); };
    const float largest = largest_of<G>(columns, lane, at);
    const bool far = fabsf(largest) > 1024 && !isinf(largest);
    for (int64_t c = lane; c < columns; c += G) {
      y[first + c] = far ? from_f32<T>(at(c) - largest) : x[first + c];
    }
  });
}

// Sum of the class weights of all labels: the divisor of a weighted mean over hard targets.
template <class T>
__global__ void __launch_bounds__(block_threads)
    label_weight_kernel(CrossEntropyGeometry g, const int64_t* labels, const T* weight,
                        double* sum) {
  double own = 0;
  for (int64_t r = threadIdx.x; r < g.rows; r += block_threads) {
    if (labels[r] >= 0 && labels[r] < g.classes) own += to_f32(weight[labels[r]]);
  }
  own = group_sum<block_threads>(own);
  if (threadIdx.x == 0) *sum = own;
}

/// The memory of the mean over blocks, in cross_entropy_kernel.
struct MeanOf {
  const double* divisor;  // null: the rows
  double* parts;
  uint32_t* ticket;
  Fault* faults;
};

// With t[r,c] the target of class c in row r,
//   loss = -1/D sum t[r,c] log p[r,c],  dlogits[r,c] = (p[r,c] sum_k t[r,k] - t[r,c]) / D:
// see core/reference/losses.cpp. G threads per row.
template <class T, int G>
__global__ void __launch_bounds__(block_threads)
    cross_entropy_kernel(CrossEntropyGeometry g, const T* logits, const int64_t* labels,
                         const T* soft, const T* weight, float* loss, T* dlogits, MeanOf mean) {
  wait_for_previous();
  const double divisor = mean.divisor ? *mean.divisor : static_cast<double>(g.rows);
  const auto scale = static_cast<float>(1 / divisor);
  const auto smooth = static_cast<float>(g.label_smoothing / static_cast<double>(g.classes));
  const auto kept = static_cast<float>(1 - g.label_smoothing);
  double total = 0;
  for_each_column<G>(g.rows, [&](int64_t row, int lane) {
    const int64_t label = labels ? labels[row] : 0;
    const bool valid =
        !labels || in_range(label, g.classes, mean.faults, FaultSource::cross_entropy, row);
    const T* x = logits + row * g.classes;
    const auto at = [&](int64_t c) { return to_f32(x[c]); };
    const auto target = [&](int64_t c) {  // t[row, c]
      const float wanted =
          labels ? static_cast<float>(c == label) : to_f32(soft[row * g.classes + c]);
      return (weight ? to_f32(weight[c]) : 1.0f) * (kept * wanted + smooth);
    };
    const LogSumExp norm = log_sum_exp<G>(g.classes, lane, at);
    float target_sum = 0;
    float row_loss = 0;
    for (int64_t c = lane; c < g.classes; c += G) {
      const float t = target(c);
      target_sum += t;
      // A class without weight adds nothing, even where its log probability is -infinity.
      if (t != 0) row_loss -= t * norm.log_probability(at(c));
    }
    if (valid) total += static_cast<double>(row_loss);
    if (!dlogits) return;
    target_sum = group_sum<G>(target_sum);
    for (int64_t c = lane; c < g.classes; c += G) {
      const float gradient = expf(norm.log_probability(at(c))) * target_sum - target(c);
      dlogits[row * g.classes + c] = from_f32<T>(valid ? gradient * scale : 0.0f);
    }
  });
  double sum;
  if (add_up(total, mean.parts, mean.ticket, sum)) *loss = static_cast<float>(sum * (1 / divisor));
}

// -t log s(x) - (1 - t) log(1 - s(x)) = max(x, 0) - x t + log(1 + exp(-|x|)); derivative s(x) - t.
template <class T>
__global__ void __launch_bounds__(block_threads)
    binary_cross_entropy_kernel(int64_t count, const T* logits, const T* target, float* loss,
                                T* dlogits, MeanOf mean) {
  const double scale = 1 / static_cast<double>(count);
  double total = 0;
  for (int64_t i = first_item(); i < count; i += item_step()) {
    const float x = to_f32(logits[i]);
    const float t = to_f32(target[i]);
    total +=
        static_cast<double>((x > 0 ? x : 0) - x * t) + static_cast<double>(log1pf(expf(-fabsf(x))));
    if (dlogits) dlogits[i] = from_f32<T>((sigmoid_of(x) - t) * static_cast<float>(scale));
  }
  double sum;
  if (add_up(total, mean.parts, mean.ticket, sum)) *loss = static_cast<float>(sum * scale);
}

class Losses final : public LossKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void softmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override {
    with_group(y.dtype(), g, [&]<class T, int G>(unsigned blocks) {
      launch_kernel(stream(), "softmax", blocks, softmax_kernel<T, G>, g, x, y);
    });
  }

  void softmax_backward(const SoftmaxGeometry& g, const Tensor& y, const Tensor& dy,
                        const Tensor& dx) override {
    with_group(dx.dtype(), g, [&]<class T, int G>(unsigned blocks) {
      launch_kernel(stream(), "softmax_backward", blocks, softmax_backward_kernel<T, G>, g, y, dy,
                    dx);
    });
  }

  void cross_entropy(const CrossEntropyGeometry& g, const LossInputs& in,
                     const LossOutputs& out) override {
    context_.enter();
    const Tensor& labels = g.soft ? no_tensor : in.target;
    const Tensor& soft = g.soft ? in.target : no_tensor;
    const bool weighted_mean = !g.soft && in.class_weight.defined();
    with_group(in.logits.dtype(), g.rows, g.classes, 1, [&]<class T, int G>(unsigned blocks) {
      const Scratch memory(allocator_, (int64_t{blocks} + 1) * int64_t{sizeof(double)});
      double* const divisor = memory.as<double>();
      if (weighted_mean) {
        launch_kernel(stream(), "cross_entropy", 1, label_weight_kernel<T>, g, labels,
                      in.class_weight, divisor);
      }
      const MeanOf mean{weighted_mean ? divisor : nullptr, divisor + 1, context_.tickets(),
                        context_.faults()};
      launch_pdl(context_, blocks, block_threads, cross_entropy_kernel<T, G>, g, in.logits, labels,
                 soft, in.class_weight, f32(out.loss), out.dlogits, mean);
    });
  }

  void binary_cross_entropy(const LossInputs& in, const LossOutputs& out) override {
    context_.enter();
    const unsigned blocks = grid_for(in.logits.count());
    const Scratch parts(allocator_, int64_t{blocks} * int64_t{sizeof(double)});
    const MeanOf mean{nullptr, parts.as<double>(), context_.tickets(), context_.faults()};
    visit_real(in.logits.dtype(), [&]<class T>() {
      launch_kernel(stream(), "binary_cross_entropy_with_logits", blocks,
                    binary_cross_entropy_kernel<T>, in.logits.count(), in.logits, in.target,
                    f32(out.loss), out.dlogits, mean);
    });
  }
};

}  // namespace

void kernels::rows_near_zero(cudaStream_t stream, DType dtype, int64_t rows, int64_t columns,
                             const void* x, void* y) {
  with_group(dtype, rows, columns, 1, [&]<class T, int G>(unsigned blocks) {
    launch_kernel(stream, "rows_near_zero", blocks, near_zero_kernel<T, G>, rows, columns, x, y);
  });
}

std::shared_ptr<LossKernels> make_losses(CudaDevice& device) {
  return std::make_shared<Losses>(device);
}

}  // namespace whisker::cuda
