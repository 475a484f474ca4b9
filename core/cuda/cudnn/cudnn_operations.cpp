// Tensors and operations of cuDNN's graphs, one descriptor each.
#include "core/cuda/cudnn/cudnn_graph.h"

namespace whisker::cuda::cudnn {
namespace {

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case DType::f16:
      return CUDNN_DATA_HALF;
    default:
      fail(ErrorKind::internal, "cuDNN: no tensor in {}", name_of(dtype));
  }
}

// Convolutions, products and sums always accumulate in f32.
constexpr cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;

}  // namespace

const Descriptor& OperationGraph::tensor(const TensorSpec& t) {
  return tensor(StridedSpec{.id = t.id,
                            .extents = {t.n, t.c, t.h, t.w},
                            .strides = {t.h * t.w * t.c, 1, t.w * t.c, t.c},
                            .dtype = t.dtype,
                            .alignment = t.alignment,
                            .is_virtual = t.is_virtual});
}

const Descriptor& OperationGraph::tensor(const StridedSpec& t) {
  Descriptor& tensor = keep(Descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, t.id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(t.dtype));
  tensor.set_array<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, t.extents);
  tensor.set_array<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, t.strides);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, t.alignment);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, t.is_virtual);
  if (t.by_value) tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  tensor.finalize("a tensor");
  return tensor;
}

Descriptor& OperationGraph::operation(cudnnBackendDescriptorType_t type) {
  Descriptor& operation = keep(Descriptor(type));
  operations_.push_back(&operation);
  return operation;
}

void OperationGraph::convolution(ConvolutionPass pass, const ConvolutionSpec& c,
                                 const Descriptor& x, const Descriptor& w, const Descriptor& y) {
  struct Names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
  };
  static constexpr Names names[] = {
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};
  const Names& own = names[static_cast<size_t>(pass)];
  Descriptor& geometry = keep(Descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
  geometry.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, compute_type);
  geometry.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  geometry.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2});
  geometry.set_array<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, c.dilation);
  geometry.set_array<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c.stride);
  geometry.set_array<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c.before);
  geometry.set_array<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, c.after);
  geometry.finalize("a convolution");
  Descriptor& op = operation(own.type);
  op.set(own.convolution, geometry);
  op.set(own.x, x);
  op.set(own.w, w);
  op.set(own.y, y);
  op.set(own.alpha, 1.0f);
  op.set(own.beta, 0.0f);
  op.finalize("a pass of a convolution");
}

Descriptor& OperationGraph::pointwise(cudnnPointwiseMode_t f) {
  Descriptor& function = keep(Descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
  function.set(CUDNN_ATTR_POINTWISE_MODE, f);
  function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute_type);
  function.finalize("a pointwise function");
  Descriptor& op = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
  return op;
}

void OperationGraph::pointwise(cudnnPointwiseMode_t f, const Descriptor& x, const Descriptor& y) {
  Descriptor& op = pointwise(f);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  op.finalize("an operation on a tensor");
}

void OperationGraph::pointwise(cudnnPointwiseMode_t f, const Descriptor& x, const Descriptor& b,
                               const Descriptor& y) {
  Descriptor& op = pointwise(f);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  op.finalize("an operation on two tensors");
}

void OperationGraph::reduce(cudnnReduceTensorOp_t op, const Descriptor& x, const Descriptor& y) {
  Descriptor& reduction = keep(Descriptor(CUDNN_BACKEND_REDUCTION_DESCRIPTOR));
  reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, op);
  reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, compute_type);
  reduction.finalize("a reduction");
  Descriptor& reduce = operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  reduce.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
  reduce.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  reduce.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  reduce.finalize("a reduction of a tensor");
}

void OperationGraph::reshape(const Descriptor& x, const Descriptor& y) {
  Descriptor& op = operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  op.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  op.finalize("a reshape");
}

void OperationGraph::matmul(const Descriptor& a, const Descriptor& b, const Descriptor& c) {
  Descriptor& product = keep(Descriptor(CUDNN_BACKEND_MATMUL_DESCRIPTOR));
  product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, compute_type);
  product.finalize("a product");
  Descriptor& op = operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, product);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  op.finalize("a product of tensors");
}

bool OperationGraph::finalize() {
  graph_.emplace(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph_->set_array(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
  if (target_.handle) graph_->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target_.handle);
  return supported(graph_->try_finalize(), "cudnnBackendFinalize of an operation graph");
}

}  // namespace whisker::cuda::cudnn
