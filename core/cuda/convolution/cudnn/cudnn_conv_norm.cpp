#include "core/cuda/convolution/cudnn/cudnn_conv_norm.h"

namespace whisker::cuda {
namespace {

// Identities beyond those of a plain convolution.
constexpr int64_t sum_id = 10, squares_id = 11, scale_id = 12, shift_id = 13, norm_x_id = 14;
constexpr int64_t mean_id = 15, inv_std_id = 16, gamma_id = 17, beta_id = 18;
constexpr int64_t dgamma_id = 19, dbeta_id = 20;
constexpr int64_t dz_factor_id = 21, x_factor_id = 22, offset_id = 23;
constexpr int64_t residual_id = 24, others_id = 25;
constexpr int64_t first_between = 30;

/// Builds the graph of a fused convolution and norm.
class ConvNormGraph {
 public:
  ConvNormGraph(const cudnn::Target& target, const Conv2dGeometry& g)
      : geometry_(g),
        spec_(convolution_spec(g)),
        graph_(std::make_shared<cudnn::OperationGraph>(target)) {}

  void forward(bool normalised) {
    const cudnn::Descriptor& x = graph_->tensor(input_of(geometry_, x_id));
    const cudnn::Descriptor& w = graph_->tensor(filter_of(geometry_, w_id));
    const cudnn::Descriptor& y = graph_->tensor(output_of(geometry_, y_id));
    graph_->convolution_forward(spec_, normalised ? normalise(x) : x, w, y);
    graph_->channel_sums(y, vector(sum_id, geometry_.c_out), vector(squares_id, geometry_.c_out));
  }

  void backward_weights() {
    const cudnn::Descriptor& x = graph_->tensor(input_of(geometry_, x_id));
    const cudnn::Descriptor& dw = graph_->tensor(filter_of(geometry_, w_id));
    const cudnn::Descriptor& dy = graph_->tensor(output_of(geometry_, y_id));
    graph_->convolution_backward_weights(spec_, normalise(x), dy, dw);
  }

  // Recomputes the sign of relu's operand from the batch_norm's operands.
  void backward_input(bool added) {
    const cudnn::Descriptor& dz = graph_->tensor(input_of(geometry_, x_id));
    const cudnn::Descriptor& w = graph_->tensor(filter_of(geometry_, w_id));
    const cudnn::Descriptor& dy = graph_->tensor(output_of(geometry_, y_id));
    const cudnn::Descriptor& x = graph_->tensor(input_of(geometry_, norm_x_id));
    const int64_t c = geometry_.c;
    const cudnn::Descriptor& mean = vector(mean_id, c);
    const cudnn::Descriptor& inv_std = vector(inv_std_id, c);
    const cudnn::Descriptor& gamma = vector(gamma_id, c);
    const cudnn::Descriptor& conv = between(DType::f32);
    const cudnn::Descriptor& centered = between(DType::f32);
    const cudnn::Descriptor& standard = between(DType::f32);
    const cudnn::Descriptor& scaled = between(DType::f32);
    const cudnn::Descriptor& z = between(DType::f32);
    graph_->convolution_backward_input(spec_, w, dy, conv);
    graph_->subtract(x, mean, centered);
    graph_->multiply(centered, inv_std, standard);
    graph_->multiply(standard, gamma, scaled);
    graph_->add(scaled, vector(beta_id, c), z);
    if (added) {
      const cudnn::Descriptor& gradient = between(DType::f32);
      const cudnn::Descriptor& total = between(DType::f32);
      graph_->add(conv, graph_->tensor(input_of(geometry_, others_id)), gradient);
      graph_->add(z, graph_->tensor(input_of(geometry_, residual_id)), total);
      graph_->relu_backward(gradient, total, dz);
    } else {
      graph_->relu_backward(conv, z, dz);
    }
    graph_->batch_norm_backward_weights({.x = x,
                                         .dy = dz,
                                         .mean = mean,
                                         .inv_std = inv_std,
                                         .gamma = gamma,
                                         .dgamma = vector(dgamma_id, c),
                                         .dbeta = vector(dbeta_id, c),
                                         .dy_factor = vector(dz_factor_id, c),
                                         .x_factor = vector(x_factor_id, c),
                                         .shift = vector(offset_id, c)});
  }

  std::shared_ptr<const cudnn::OperationGraph> finish() && {
    if (!graph_->finalize()) return nullptr;
    return std::move(graph_);
  }

 private:
  const cudnn::Descriptor& vector(int64_t id, int64_t c, DType dtype = DType::f32) {
    return graph_->tensor({.id = id, .c = c, .dtype = dtype});
  }
  // A virtual tensor shaped as x.
  const cudnn::Descriptor& between(DType dtype) {
    cudnn::TensorSpec spec = input_of(geometry_, first_between + betweens_++);
    spec.dtype = dtype;
    spec.is_virtual = true;
    return graph_->tensor(spec);
  }
  const cudnn::Descriptor& normalise(const cudnn::Descriptor& x) {
    const cudnn::Descriptor& scaled = between(geometry_.dtype);
    const cudnn::Descriptor& shifted = between(geometry_.dtype);
    const cudnn::Descriptor& z = between(geometry_.dtype);
    graph_->multiply(x, vector(scale_id, geometry_.c, geometry_.dtype), scaled);
    graph_->add(scaled, vector(shift_id, geometry_.c, geometry_.dtype), shifted);
    graph_->relu(shifted, z);
    return z;
  }

  const Conv2dGeometry& geometry_;
  cudnn::ConvolutionSpec spec_;
  std::shared_ptr<cudnn::OperationGraph> graph_;
  int64_t betweens_ = 0;
};

}  // namespace

std::shared_ptr<const cudnn::OperationGraph> conv_norm_graph(const cudnn::Target& target,
                                                             const ConvolutionRequest& request) {
  // Vectors of f16 and halves of the sums stay 16-byte aligned.
  const Conv2dGeometry& g = request.geometry;
  const bool fits = g.dtype == DType::f16 && g.groups == 1 && g.c % 8 == 0 && g.c_out % 8 == 0;
  if (!fits || request.has_epilogue()) return nullptr;
  ConvNormGraph graph(target, g);
  switch (request.pass) {
    case ConvolutionPass::forward:
      graph.forward(request.normalised);
      break;
    case ConvolutionPass::backward_input:
      graph.backward_input(request.added);
      break;
    case ConvolutionPass::backward_weights:
      graph.backward_weights();
      break;
  }
  return std::move(graph).finish();
}

void bind_conv_norm(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                    std::vector<cudnn::Binding>& bindings) {
  const NormOperands& norm = operands.norm;
  const auto bind = [&](int64_t id, const void* memory) {
    bindings.push_back({id, const_cast<void*>(memory)});
  };
  if (request.sums) {
    bind(sum_id, operands.sums);
    bind(squares_id, static_cast<float*>(operands.sums) + request.geometry.c_out);
  }
  if (!request.normalised) return;
  if (request.pass != ConvolutionPass::backward_input) {
    bind(scale_id, norm.scale);
    bind(shift_id, norm.shift);
    return;
  }
  if (request.added) {
    bind(residual_id, norm.residual);
    bind(others_id, norm.others);
  }
  bind(norm_x_id, norm.x);
  bind(mean_id, norm.mean);
  bind(inv_std_id, norm.inv_std);
  bind(gamma_id, norm.gamma);
  bind(beta_id, norm.beta);
  bind(dgamma_id, norm.dgamma);
  bind(dbeta_id, norm.dbeta);
  bind(dz_factor_id, norm.dz_factor);
  bind(x_factor_id, norm.x_factor);
  bind(offset_id, norm.offset);
}

}  // namespace whisker::cuda
