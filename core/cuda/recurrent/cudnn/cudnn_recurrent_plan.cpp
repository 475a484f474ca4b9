#include "core/cuda/recurrent/cudnn/cudnn_recurrent_plan.h"

#include "core/cuda/recurrent/recurrent_sizes.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

cudnnDataType_t data_type(DType dtype) {
  if (dtype == DType::bf16) return CUDNN_DATA_BFLOAT16;
  return dtype == DType::f16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

cudnnRNNMode_t mode_of(RecurrentKind kind) {
  if (kind == RecurrentKind::lstm) return CUDNN_LSTM;
  if (kind == RecurrentKind::gru) return CUDNN_GRU;
  return kind == RecurrentKind::rnn_relu ? CUDNN_RNN_RELU : CUDNN_RNN_TANH;
}

cudnnMathType_t math_of(const RecurrentGeometry& g, bool tf32) {
  if (g.dtype != DType::f32) return CUDNN_TENSOR_OP_MATH;
  return tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

int32_t in_32_bits(const char* what, int64_t extent) {
  if (extent > INT32_MAX) {
    fail(ErrorKind::usage, "recurrent: expected {} below 2^31 on a GPU, got {}.", what, extent);
  }
  return static_cast<int32_t>(extent);
}

void describe_state(cudnnTensorDescriptor_t descriptor, const RecurrentGeometry& g,
                    int64_t extent) {
  const int cells = in_32_bits("cells", g.cells()), batch = in_32_bits("the batch", g.batch);
  const int width = in_32_bits("hidden", extent);
  const int extents[] = {cells, batch, width};
  const int strides[] = {in_32_bits("the state", g.batch * extent), width, 1};
  cudnn::check(cudnnSetTensorNdDescriptor(descriptor, data_type(g.dtype), 3, extents, strides),
               "cudnnSetTensorNdDescriptor");
}

void describe_steps(cudnnRNNDataDescriptor_t descriptor, const RecurrentGeometry& g,
                    int64_t extent) {
  const std::vector<int> lengths(static_cast<size_t>(g.batch), in_32_bits("steps", g.steps));
  double zero = 0;  // of every type
  cudnn::check(cudnnSetRNNDataDescriptor(
                   descriptor, data_type(g.dtype), CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                   in_32_bits("steps", g.steps), in_32_bits("the batch", g.batch),
                   in_32_bits("features", extent), lengths.data(), &zero),
               "cudnnSetRNNDataDescriptor");
}

}  // namespace

CudnnRecurrentPlan::CudnnRecurrentPlan(Context& context, Allocator& allocator,
                                       const RecurrentGeometry& g, bool tf32)
    : context_(context), g_(g), tf32_(tf32) {
  if (g.projection >= g.hidden) {
    fail(ErrorKind::usage,
         "recurrent: on a GPU a projection is smaller than hidden, got {} for {} hidden units.",
         g.projection, g.hidden);
  }
  const cudnnHandle_t handle = context_.cudnn();
  cudnn::check(cudnnSetDropoutDescriptor(dropout_.raw(), handle, 0, nullptr, 0, 0),
               "cudnnSetDropoutDescriptor");
  cudnn::check(cudnnSetRNNDescriptor_v8(
                   rnn_.raw(), CUDNN_RNN_ALGO_STANDARD, mode_of(g.kind),
                   g.bias ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS,
                   g.directions == 2 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL,
                   CUDNN_LINEAR_INPUT, data_type(g.dtype), CUDNN_DATA_FLOAT, math_of(g, tf32),
                   in_32_bits("features", g.features), in_32_bits("hidden", g.hidden),
                   in_32_bits("projection", g.output()), in_32_bits("layers", g.layers),
                   dropout_.raw(), CUDNN_RNN_PADDED_IO_ENABLED),
               "cudnnSetRNNDescriptor_v8");
  describe_state(h_.raw(), g, g.output());
  describe_state(c_.raw(), g, g.hidden);
  describe_steps(x_.raw(), g, g.features);
  describe_steps(y_.raw(), g, g.directions * g.output());
  for (const cudnnForwardMode_t mode : {CUDNN_FWD_MODE_INFERENCE, CUDNN_FWD_MODE_TRAINING}) {
    size_t workspace = 0, reserve = 0;
    cudnn::check(
        cudnnGetRNNTempSpaceSizes(handle, rnn_.raw(), mode, x_.raw(), &workspace, &reserve),
        "cudnnGetRNNTempSpaceSizes");
    workspace_bytes_ = std::max(workspace_bytes_, static_cast<int64_t>(workspace));
    reserve_bytes_ = static_cast<int64_t>(reserve);
  }
  size_t weights = 0;
  cudnn::check(cudnnGetRNNWeightSpaceSize(handle, rnn_.raw(), &weights),
               "cudnnGetRNNWeightSpaceSize");
  weight_bytes_ = static_cast<int64_t>(weights);
  find_regions(allocator);
}

// cuDNN orders the gates as RecurrentParameters does: first w_ih, then w_hh, then the projection.
void CudnnRecurrentPlan::find_regions(Allocator& allocator) {
  const Scratch weights(allocator, weight_bytes_);
  const TensorHandle matrix_descriptor, bias_descriptor;
  const int64_t width = width_of(g_), gates = g_.gates();
  for (int64_t cell = 0; cell < g_.cells(); ++cell) {
    const auto add = [&](int64_t part, int64_t gate, Tensor RecurrentParameters::*matrix,
                         int64_t elements, Tensor RecurrentParameters::*bias) {
      void* matrix_at = nullptr;
      void* bias_at = nullptr;
      cudnn::check(cudnnGetRNNWeightParams(context_.cudnn(), rnn_.raw(), static_cast<int32_t>(cell),
                                           static_cast<size_t>(weight_bytes_), weights.data(),
                                           static_cast<int32_t>(part), matrix_descriptor.raw(),
                                           &matrix_at, bias_descriptor.raw(), &bias_at),
                   "cudnnGetRNNWeightParams");
      const auto region = [&](Tensor RecurrentParameters::*member, int64_t bytes, void* at) {
        regions_.push_back({.cell = static_cast<size_t>(cell),
                            .member = member,
                            .first = gate * bytes,
                            .bytes = bytes,
                            .at = static_cast<char*>(at) - weights.as<char>()});
      };
      region(matrix, elements * width, matrix_at);
      if (bias && g_.bias) region(bias, g_.hidden * width, bias_at);
    };
    for (int64_t gate = 0; gate < gates; ++gate) {
      add(gate, gate, &RecurrentParameters::w_ih, g_.hidden * g_.inputs(cell / g_.directions),
          &RecurrentParameters::b_ih);
      add(gates + gate, gate, &RecurrentParameters::w_hh, g_.hidden * g_.output(),
          &RecurrentParameters::b_hh);
    }
    if (g_.projection > 0) {
      add(2 * gates, 0, &RecurrentParameters::w_hr, g_.projection * g_.hidden, nullptr);
    }
  }
  std::ranges::sort(regions_, {}, &WeightRegion::at);
}

std::vector<CudnnRecurrentPlan::Copy> CudnnRecurrentPlan::copies(
    std::span<const RecurrentParameters> cells, void* weights) const {
  std::vector<Copy> copies;
  for (const WeightRegion& region : regions_) {
    const Tensor& tensor = cells[region.cell].*region.member;
    if (!tensor.defined()) continue;
    const Copy next{.unpacked = static_cast<char*>(tensor.raw()) + region.first,
                    .packed = static_cast<char*>(weights) + region.at,
                    .bytes = region.bytes};
    const bool adjoins = !copies.empty() &&
                         copies.back().unpacked + copies.back().bytes == next.unpacked &&
                         copies.back().packed + copies.back().bytes == next.packed;
    if (adjoins) {
      copies.back().bytes += next.bytes;
    } else {
      copies.push_back(next);
    }
  }
  return copies;
}

void CudnnRecurrentPlan::forward(const RecurrentCall& call, void* h_last, void* c_last) {
  const bool training = call.reserve != nullptr;
  cudnn::check(
      cudnnRNNForward(context_.cudnn(), rnn_.raw(),
                      training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, nullptr,
                      x_.raw(), call.x, y_.raw(), call.y, h_.raw(), call.h, h_last, c_descriptor(),
                      call.c, c_last, static_cast<size_t>(weight_bytes_), call.weights,
                      static_cast<size_t>(workspace_bytes_), call.workspace,
                      training ? static_cast<size_t>(reserve_bytes_) : 0, call.reserve),
      "cudnnRNNForward");
}

void CudnnRecurrentPlan::backward_data(const RecurrentCall& call, const void* dy,
                                       const void* dh_last, const void* dc_last, void* dx, void* dh,
                                       void* dc) {
  cudnn::check(
      cudnnRNNBackwardData_v8(context_.cudnn(), rnn_.raw(), nullptr, y_.raw(), call.y, dy, x_.raw(),
                              dx, h_.raw(), call.h, dh_last, dh, c_descriptor(), call.c, dc_last,
                              dc, static_cast<size_t>(weight_bytes_), call.weights,
                              static_cast<size_t>(workspace_bytes_), call.workspace,
                              static_cast<size_t>(reserve_bytes_), call.reserve),
      "cudnnRNNBackwardData_v8");
}

void CudnnRecurrentPlan::backward_weights(const RecurrentCall& call, void* dweights) {
  cudnn::check(cudnnRNNBackwardWeights_v8(context_.cudnn(), rnn_.raw(), CUDNN_WGRAD_MODE_ADD,
                                          nullptr, x_.raw(), call.x, h_.raw(), call.h, y_.raw(),
                                          call.y, static_cast<size_t>(weight_bytes_), dweights,
                                          static_cast<size_t>(workspace_bytes_), call.workspace,
                                          static_cast<size_t>(reserve_bytes_), call.reserve),
               "cudnnRNNBackwardWeights_v8");
}

}  // namespace whisker::cuda
