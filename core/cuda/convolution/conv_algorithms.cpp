// See Note [Choosing a convolution].
#include "core/cuda/convolution/conv_algorithms.h"

#include "core/cuda/convolution/few_channels/few_channels_conv.h"
#include "core/cuda/ops/launchers.h"

#include <optional>

namespace whisker::cuda {
namespace {

constexpr const char* unfused_name = "unfused";

/// A request in several steps. Its own requests are chosen by themselves.
class UnfusedConvolution final : public ConvolutionAlgorithm {
 public:
  UnfusedConvolution(ConvAlgorithms& all, const ConvolutionRequest& request)
      : all_(all), request_(request) {
    const Conv2dGeometry& g = request.geometry;
    pool_ = {.n = g.n, .h = g.h_out, .w = g.w_out, .c = g.c_out, .kernel_h = 2, .kernel_w = 2};
    pool_.stride_h = pool_.stride_w = 2;
    pool_.h_out = g.h_out / 2, pool_.w_out = g.w_out / 2;
    pool_.dtype = g.dtype;
  }
  std::string name() const override { return unfused_name; }
  void run(const KernelSite& /*site*/, const ConvolutionOperands& operands,
           void* /*workspace*/) const override {
    const Pool2dGeometry* const pool = request_.pooled ? &pool_ : nullptr;
    if (request_.pass == ConvolutionPass::forward) {
      all_.forward_unfused(request_, pool, operands);
    } else {
      all_.backward_unfused(request_, pool, operands, {});
    }
  }

 private:
  ConvAlgorithms& all_;
  ConvolutionRequest request_;
  Pool2dGeometry pool_;
};

// Forward, an unfused bias or activation alone rounds twice. An addition of its own rounds as often
// as one within.
bool may_prefer_unfused(const ConvolutionRequest& request) {
  return request.has_epilogue() &&
         (request.pooled || request.residual || request.pass != ConvolutionPass::forward);
}

int64_t result_bytes(const Conv2dGeometry& g) {
  return g.n * g.h_out * g.w_out * g.c_out * static_cast<int64_t>(size_of(g.dtype));
}

RowsGeometry rows_of(const Conv2dGeometry& g) {
  return {.rows = g.n * g.h_out * g.w_out, .channels = g.c_out, .dtype = g.dtype};
}
RowsGeometry rows_of(const Pool2dGeometry& p) {
  return {.rows = p.n * p.h_out * p.w_out, .channels = p.c, .dtype = p.dtype};
}

}  // namespace

bool is_epilogue(const Pool2dGeometry& p) {
  return p.is_square(2, 2) && p.pad_top == 0 && p.pad_left == 0 && p.h_out == p.h / 2 &&
         p.w_out == p.w / 2 && p.n * p.h_out * p.w_out < int64_t{1} << 32;
}

void ConvAlgorithms::forward_unfused(const ConvolutionRequest& request, const Pool2dGeometry* pool,
                                     const ConvolutionOperands& operands) {
  const ActivationSpec f = request.geometry.activation;
  if (!pool) {
    ConvolutionOperands plain = operands;  // bias and residual come with the activation
    plain.b = nullptr;
    plain.residual = nullptr;
    run(request.plain(), plain);
    return bias_activation(rows_of(request.geometry), f, operands.b, operands.residual, operands.y,
                           context_.stream());
  }
  // cuDNN fuses relu into the convolution. Any other activation runs after the pooling, on fewer
  // elements.
  const bool first = f.kind == Activation::relu;
  const Scratch z(allocator_, result_bytes(request.geometry));
  ConvolutionRequest unpooled = request;
  unpooled.pooled = false;
  if (!first) unpooled.geometry.activation = {};
  run(unpooled, {.x = operands.x, .w = operands.w, .b = operands.b, .y = z.data()});
  pool2d_forward(context_, *pool, z.data(), operands.y, operands.argmax);
  if (first) return;
  bias_activation(rows_of(*pool), f, nullptr, nullptr, operands.y, context_.stream());
}

void ConvAlgorithms::backward_unfused(const ConvolutionRequest& weights, const Pool2dGeometry* pool,
                                      const ConvolutionOperands& of_weights,
                                      const ConvolutionOperands& of_input) {
  const Conv2dGeometry& g = weights.geometry;
  const ActivationSpec f = g.activation;
  void* dz = of_weights.y;  // (N, h_out, w_out, c_out), before activation and pooling
  std::optional<Scratch> scratch;
  const bool convolves = of_weights.w || of_input.x;
  if (convolves && (pool || f.kind != Activation::none)) {
    dz = scratch.emplace(allocator_, result_bytes(g)).data();
  }
  if (!pool || !convolves) {  // each window has one argmax: db is the sum of their gradients
    output_gradient(pool ? rows_of(*pool) : rows_of(g), f, of_weights.output, of_weights.y,
                    scratch ? dz : nullptr, of_weights.b, context_, allocator_);
  } else if (is_epilogue(*pool)) {
    window_gradient(*pool, f, of_weights.output, of_weights.y, of_weights.argmax, dz, of_weights.b,
                    context_, allocator_);
  } else {
    const RowsGeometry rows = rows_of(*pool);
    const Scratch windows(allocator_,
                          rows.rows * rows.channels * static_cast<int64_t>(size_of(g.dtype)));
    output_gradient(rows, f, of_weights.output, of_weights.y, windows.data(), of_weights.b,
                    context_, allocator_);
    pool2d_backward(context_, *pool, of_weights.argmax, windows.data(), dz);
  }
  if (of_weights.w) run(weights.plain(), {.x = of_weights.x, .w = of_weights.w, .y = dz});
  if (of_input.x) {
    ConvolutionRequest input = weights.plain();
    input.pass = ConvolutionPass::backward_input;
    run(input, {.x = of_input.x, .w = of_input.w, .y = dz});
  }
}

ConvAlgorithms::Pointer ConvAlgorithms::named(const ConvolutionRequest& request,
                                              const ConvolutionOperands& /*operands*/,
                                              const std::string& name) {
  if (name == few_channels_name) return few_channels_conv(request, site());
  if (name == depthwise_name) return depthwise_convolution(request, site());
  if (name == direct_name) return direct_convolution(request);
  if (name == unfused_name && request.has_epilogue()) return last_resort(request);
  const auto engine = cudnn::EngineChoice::parse(name);
  const auto graph = engine ? graph_of(request) : nullptr;
  return graph ? usable(graph, request, *engine) : nullptr;
}

ConvAlgorithms::Choice ConvAlgorithms::untimed(const ConvolutionRequest& request,
                                               const ConvolutionOperands& /*operands*/) {
  const bool fused_norm = request.sums || request.normalised;
  Pointer algorithm = few_channels_conv(request, site());
  if (!algorithm) algorithm = depthwise_convolution(request, site());
  if (!algorithm) {
    algorithm = options_.without_libraries ? direct_convolution(request) : first_engine(request);
  }
  const bool unfused_may_fit = request.has_epilogue() && !options_.deterministic && algorithm &&
                               algorithm->workspace_bytes() > 0 && !fits(*algorithm);
  if (!algorithm || unfused_may_fit) algorithm = last_resort(request);
  return {.algorithm = std::move(algorithm), .settled = fused_norm};
}

void ConvAlgorithms::prepare(const ConvolutionRequest& request,
                             const ConvolutionOperands& operands) {
  if (!may_prefer_unfused(request)) return;
  for (int use = 0; use < 2; ++use) UnfusedConvolution(*this, request).run({}, operands, nullptr);
}

void ConvAlgorithms::propose(const ConvolutionRequest& request,
                             const ConvolutionOperands& /*operands*/, const Pointer& present,
                             const Search& search) {
  constexpr double heuristic_seconds = 5e-3;  // to propose engines, roughly
  if (may_prefer_unfused(request)) {
    search.consider(unfused_name, [&] { return last_resort(request); });
  }
  if (present->name() != unfused_name) search.consider(present->name(), [&] { return present; });
  search.consider(std::string(few_channels_name),
                  [&] { return few_channels_conv(request, site()); });
  search.consider(std::string(depthwise_name),
                  [&] { return depthwise_convolution(request, site()); });
  const auto graph = search.pays(heuristic_seconds) ? graph_of(request) : nullptr;
  for (const auto heuristic : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!graph || !search.pays(heuristic_seconds)) break;
    for (const auto& engine :
         convolution_engines(*graph, request, heuristic, options_.deterministic)) {
      if (!search.pays(0)) break;
      search.consider(engine.text(), [&] { return usable(graph, request, engine); });
    }
  }
  if (!search.has_found()) search.consider(present->name(), [&] { return present; });
}

std::shared_ptr<const cudnn::OperationGraph> ConvAlgorithms::graph_of(
    const ConvolutionRequest& request) {
  return convolution_graph({.handle = context_.cudnn()}, padded_evenly(request));
}

ConvAlgorithms::Pointer ConvAlgorithms::usable(std::shared_ptr<const cudnn::OperationGraph> graph,
                                               const ConvolutionRequest& request,
                                               const cudnn::EngineChoice& engine) {
  auto algorithm = CudnnConvolution::make(std::move(graph), padded_evenly(request), engine);
  if (!algorithm || algorithm->workspace_bytes() > options_.workspace_limit) return nullptr;
  if (!admissible(request, algorithm->notes(), options_.deterministic)) return nullptr;
  if (pads_evenly(request.geometry)) return algorithm;
  return pad_around(request, std::move(algorithm));
}

ConvAlgorithms::Pointer ConvAlgorithms::first_engine(const ConvolutionRequest& request) {
  const auto graph = graph_of(request);
  if (!graph) return nullptr;
  for (const auto heuristic : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const auto& engine :
         convolution_engines(*graph, request, heuristic, options_.deterministic)) {
      if (auto algorithm = usable(graph, request, engine)) return algorithm;
    }
  }
  return nullptr;
}

ConvAlgorithms::Pointer ConvAlgorithms::last_resort(const ConvolutionRequest& request) {
  if (request.has_epilogue()) return std::make_shared<UnfusedConvolution>(*this, request);
  if (auto direct = direct_convolution(request)) return direct;
  fail(ErrorKind::internal, "cuDNN: no engine computes {}", request.describe());
}

}  // namespace whisker::cuda
