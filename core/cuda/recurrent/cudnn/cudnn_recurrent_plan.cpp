#include "core/cuda/recurrent/cudnn/cudnn_recurrent_plan.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

cudnnDataType_t data_type(DType dtype) {
  if (dtype == DType::bf16) return CUDNN_DATA_BFLOAT16;
  return dtype == DType::f16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

cudnnRNNMode_t mode_of(RecurrentKind kind) {
  switch (kind) {
    case RecurrentKind::rnn_tanh:
      return CUDNN_RNN_TANH;
    case RecurrentKind::rnn_relu:
      return CUDNN_RNN_RELU;
    case RecurrentKind::lstm:
      return CUDNN_LSTM;
    case RecurrentKind::gru:
      return CUDNN_GRU;
  }
  return CUDNN_LSTM;
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

}  // namespace

SequenceDescriptor::SequenceDescriptor(DType dtype, int64_t steps, int64_t batch, int64_t extent) {
  const std::vector<int> lengths(static_cast<size_t>(batch), in_32_bits("steps", steps));
  double zero = 0;  // of every type
  cudnn::check(cudnnSetRNNDataDescriptor(handle_.raw(), data_type(dtype),
                                         CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                                         in_32_bits("steps", steps), in_32_bits("the batch", batch),
                                         in_32_bits("features", extent), lengths.data(), &zero),
               "cudnnSetRNNDataDescriptor");
}

CudnnRecurrentPlan::CudnnRecurrentPlan(Context& context, Allocator& allocator,
                                       const RecurrentGeometry& g, cudnnRNNAlgo_t algorithm,
                                       bool tf32)
    : context_(context), g_(g) {
  if (g.projection >= g.hidden) {
    fail(ErrorKind::usage,
         "recurrent: on a GPU a projection is smaller than hidden, got {} for {} hidden units.",
         g.projection, g.hidden);
  }
  const cudnnHandle_t handle = context_.cudnn();
  cudnn::check(cudnnSetDropoutDescriptor(dropout_.raw(), handle, 0, nullptr, 0, 0),
               "cudnnSetDropoutDescriptor");
  cudnn::check(cudnnSetRNNDescriptor_v8(
                   rnn_.raw(), algorithm, mode_of(g.kind),
                   g.bias ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS,
                   g.directions == 2 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL,
                   CUDNN_LINEAR_INPUT, data_type(g.dtype), CUDNN_DATA_FLOAT, math_of(g, tf32),
                   in_32_bits("features", g.features), in_32_bits("hidden", g.hidden),
                   in_32_bits("projection", g.output()), in_32_bits("layers", g.layers),
                   dropout_.raw(), CUDNN_RNN_PADDED_IO_ENABLED),
               "cudnnSetRNNDescriptor_v8");
  describe_state(h_.raw(), g, g.output());
  describe_state(c_.raw(), g, g.hidden);
  const SequenceDescriptor x(g.dtype, g.steps, g.batch, g.features);
  for (const cudnnForwardMode_t mode : {CUDNN_FWD_MODE_INFERENCE, CUDNN_FWD_MODE_TRAINING}) {
    size_t workspace = 0, reserve = 0;
    cudnn::check(cudnnGetRNNTempSpaceSizes(handle, rnn_.raw(), mode, x.raw(), &workspace, &reserve),
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

void CudnnRecurrentPlan::find_regions(Allocator& allocator) {
  const Scratch weights(allocator, weight_bytes_);
  for (int64_t cell = 0; cell < g_.cells(); ++cell) {
    add_regions(static_cast<size_t>(cell), g_.inputs(cell / g_.directions), weights.as<char>());
  }
}

// cuDNN orders the gates as RecurrentParameters does: first w_ih, then w_hh, then the projection.
void CudnnRecurrentPlan::add_regions(size_t cell, int64_t inputs, char* weights) {
  const auto width = static_cast<int64_t>(size_of(g_.dtype));
  const TensorHandle matrix_descriptor, bias_descriptor;
  const auto add = [&](int64_t part, Tensor RecurrentParameters::*matrix, int64_t matrix_bytes,
                       Tensor RecurrentParameters::*bias, int64_t row_block) {
    void* matrix_at = nullptr;
    void* bias_at = nullptr;
    cudnn::check(cudnnGetRNNWeightParams(context_.cudnn(), rnn_.raw(), static_cast<int32_t>(cell),
                                         static_cast<size_t>(weight_bytes_), weights,
                                         static_cast<int32_t>(part), matrix_descriptor.raw(),
                                         &matrix_at, bias_descriptor.raw(), &bias_at),
                 "cudnnGetRNNWeightParams");
    regions_.push_back({.cell = cell,
                        .member = matrix,
                        .first = row_block * matrix_bytes,
                        .bytes = matrix_bytes,
                        .at = static_cast<char*>(matrix_at) - weights});
    if (!bias || !g_.bias) return;
    regions_.push_back({.cell = cell,
                        .member = bias,
                        .first = row_block * g_.hidden * width,
                        .bytes = g_.hidden * width,
                        .at = static_cast<char*>(bias_at) - weights});
  };
  const int64_t gates = g_.gates();
  for (int64_t gate = 0; gate < gates; ++gate) {
    add(gate, &RecurrentParameters::w_ih, g_.hidden * inputs * width, &RecurrentParameters::b_ih,
        gate);
    add(gates + gate, &RecurrentParameters::w_hh, g_.hidden * g_.output() * width,
        &RecurrentParameters::b_hh, gate);
  }
  if (g_.projection > 0) {
    add(2 * gates, &RecurrentParameters::w_hr, g_.projection * g_.hidden * width, nullptr, 0);
  }
}

std::vector<Copy> CudnnRecurrentPlan::copies(std::span<const RecurrentParameters> cells,
                                             void* weights) const {
  std::vector<Copy> copies;
  for (const WeightRegion& region : regions_) {
    const Tensor& tensor = cells[region.cell].*region.member;
    if (!tensor.defined()) continue;
    copies.push_back({.unpacked = static_cast<char*>(tensor.raw()) + region.first,
                      .packed = static_cast<char*>(weights) + region.at,
                      .bytes = region.bytes});
  }
  return copies;
}

SequenceDescriptor CudnnRecurrentPlan::inputs() const {
  return SequenceDescriptor(g_.dtype, g_.steps, g_.batch, g_.features);
}

SequenceDescriptor CudnnRecurrentPlan::results() const {
  return SequenceDescriptor(g_.dtype, g_.steps, g_.batch, g_.directions * g_.output());
}

void CudnnRecurrentPlan::forward(const RecurrentCall& call, void* h_last, void* c_last) {
  const bool training = call.reserve != nullptr;
  cudnn::check(
      cudnnRNNForward(context_.cudnn(), rnn_.raw(),
                      training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, nullptr,
                      inputs().raw(), call.x, results().raw(), call.y, h_.raw(), call.h, h_last,
                      c_descriptor(), call.c, c_last, static_cast<size_t>(weight_bytes_),
                      call.weights, static_cast<size_t>(workspace_bytes_), call.workspace,
                      training ? static_cast<size_t>(reserve_bytes_) : 0, call.reserve),
      "cudnnRNNForward");
}

void CudnnRecurrentPlan::backward_data(const RecurrentCall& call, const void* dy,
                                       const void* dh_last, const void* dc_last, void* dx, void* dh,
                                       void* dc) {
  cudnn::check(
      cudnnRNNBackwardData_v8(context_.cudnn(), rnn_.raw(), nullptr, results().raw(), call.y, dy,
                              inputs().raw(), dx, h_.raw(), call.h, dh_last, dh, c_descriptor(),
                              call.c, dc_last, dc, static_cast<size_t>(weight_bytes_), call.weights,
                              static_cast<size_t>(workspace_bytes_), call.workspace,
                              static_cast<size_t>(reserve_bytes_), call.reserve),
      "cudnnRNNBackwardData_v8");
}

void CudnnRecurrentPlan::backward_weights(const RecurrentCall& call, void* dweights) {
  cudnn::check(
      cudnnRNNBackwardWeights_v8(context_.cudnn(), rnn_.raw(), CUDNN_WGRAD_MODE_ADD, nullptr,
                                 inputs().raw(), call.x, h_.raw(), call.h, results().raw(), call.y,
                                 static_cast<size_t>(weight_bytes_), dweights,
                                 static_cast<size_t>(workspace_bytes_), call.workspace,
                                 static_cast<size_t>(reserve_bytes_), call.reserve),
      "cudnnRNNBackwardWeights_v8");
}

}  // namespace whisker::cuda
