#include "core/cuda/convolution/cudnn/cudnn_convolution.h"

namespace whisker::cuda {
namespace {

// Identities of the operands.
constexpr int64_t x_id = 1, w_id = 2, b_id = 3, y_id = 4, residual_id = 5;
constexpr int64_t conv_id = 6, added_id = 7, sum_id = 8;  // between operations

cudnn::TensorSpec output_of(const Conv2dGeometry& g, int64_t id) {
  return cudnn::nhwc(id, {g.n, g.h_out, g.w_out, g.c_out}, g.dtype);
}

bool in_graph(const ConvolutionRequest& r) {
  if (r.pooled || r.sums || r.normalised) return false;
  if (r.pass != ConvolutionPass::forward) return !r.has_epilogue();
  if (r.residual && !r.geometry.bias) return false;  // cuDNN 9.19 has no engine
  const Activation kind = r.geometry.activation.kind;
  return kind == Activation::none || kind == Activation::relu;
}

// y = f(x * w + residual + b), f32 until the result is stored. cuDNN 9.19 has engines for this
// order of the two, and none for the other.
void forward(cudnn::OperationGraph& graph, const ConvolutionRequest& request,
             const cudnn::Descriptor& x, const cudnn::Descriptor& w, const cudnn::Descriptor& y) {
  const Conv2dGeometry& g = request.geometry;
  const bool active = g.activation.kind != Activation::none;
  const auto between = [&](int64_t id) -> const cudnn::Descriptor& {
    cudnn::TensorSpec spec = output_of(g, id);
    spec.dtype = DType::f32;
    spec.is_virtual = true;
    return graph.tensor(spec);
  };
  const cudnn::Descriptor& conv = request.has_epilogue() ? between(conv_id) : y;
  graph.convolution(ConvolutionPass::forward, g, x, w, conv);
  const cudnn::Descriptor* last = &conv;
  if (request.residual) {
    const cudnn::Descriptor& residual = graph.tensor(output_of(g, residual_id));
    const cudnn::Descriptor& added = between(added_id);
    graph.pointwise(CUDNN_POINTWISE_ADD, conv, residual, added);
    last = &added;
  }
  if (g.bias) {
    const cudnn::Descriptor& b = graph.tensor(cudnn::nhwc(b_id, {1, 1, 1, g.c_out}, g.dtype));
    const cudnn::Descriptor& sum = active ? between(sum_id) : y;
    graph.pointwise(CUDNN_POINTWISE_ADD, *last, b, sum);
    last = &sum;
  }
  if (active) graph.pointwise(CUDNN_POINTWISE_RELU_FWD, *last, y);
}

}  // namespace

std::shared_ptr<const cudnn::OperationGraph> convolution_graph(const cudnn::Target& target,
                                                               const ConvolutionRequest& request) {
  const Conv2dGeometry& g = request.geometry;
  if (!in_graph(request)) return nullptr;
  auto graph = std::make_shared<cudnn::OperationGraph>(target);
  const cudnn::Descriptor& x = graph->tensor(cudnn::nhwc(x_id, {g.n, g.h, g.w, g.c}, g.dtype));
  const cudnn::Descriptor& w =
      graph->tensor(cudnn::nhwc(w_id, {g.c_out, g.kernel_h, g.kernel_w, g.c / g.groups}, g.dtype));
  const cudnn::Descriptor& y = graph->tensor(output_of(g, y_id));
  if (request.pass == ConvolutionPass::forward) {
    forward(*graph, request, x, w, y);
  } else {
    graph->convolution(request.pass, g, x, w, y);
  }
  if (!graph->finalize()) return nullptr;
  return graph;
}

ConvolutionAlgorithmPointer cudnn_convolution(std::shared_ptr<const cudnn::OperationGraph> graph,
                                              const ConvolutionRequest& request,
                                              const cudnn::EngineChoice& engine,
                                              bool deterministic) {
  using cudnn::note;
  cudnn::NumericalNotes refused =
      note(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) | note(CUDNN_NUMERICAL_NOTE_FFT) |
      note(CUDNN_NUMERICAL_NOTE_WINOGRAD) | note(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4) |
      note(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6) | note(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
  if (request.geometry.dtype == DType::f32 && !request.tf32) {
    refused |=
        note(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) | note(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  }
  if (deterministic) refused |= note(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  const std::shared_ptr<const cudnn::Plan> plan =
      cudnn::Plan::make(std::move(graph), engine, refused);
  if (!plan) return nullptr;
  const bool biased = request.pass == ConvolutionPass::forward && request.geometry.bias;
  const auto run = [plan, biased, residual = request.residual](
                       const KernelSite&, const ConvolutionOperands& o, void* workspace) {
    std::vector<cudnn::Binding> bindings{{x_id, o.x}, {w_id, o.w}, {y_id, o.y}};
    if (biased) bindings.push_back({b_id, o.b});
    if (residual) bindings.push_back({residual_id, const_cast<void*>(o.residual)});
    plan->execute(bindings, workspace);
  };
  return std::make_unique<FunctionAlgorithm<ConvolutionOperands>>(engine.text(), run,
                                                                  plan->workspace_bytes());
}

}  // namespace whisker::cuda
