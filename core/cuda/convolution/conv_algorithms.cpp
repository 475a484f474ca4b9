// See Note [Choosing a convolution].
#include "core/cuda/convolution/conv_algorithms.h"

#include "core/cuda/convolution/few_channels/few_channels_conv.h"
#include "core/cuda/ops/launchers.h"

#include <algorithm>
#include <optional>

namespace whisker::cuda {
namespace {

constexpr const char* unfused_name = "unfused";

/// The max-pooling of a pooled request.
Pool2dGeometry pooling_behind(const Conv2dGeometry& g) {
  Pool2dGeometry pool{.n = g.n, .h = g.h_out, .w = g.w_out, .c = g.c_out};
  pool.kernel_h = pool.kernel_w = pool.stride_h = pool.stride_w = 2;
  pool.h_out = g.h_out / 2, pool.w_out = g.w_out / 2;
  pool.dtype = g.dtype;
  return pool;
}

/// The request with equal padding, whose x is larger by the difference between the padding at the
/// end and that at the start: see Note [Padding that differs by side].
ConvolutionRequest padded_evenly(ConvolutionRequest request) {
  Conv2dGeometry& g = request.geometry;
  g.h += g.pad_bottom - g.pad_top;
  g.w += g.pad_right - g.pad_left;
  g.pad_bottom = g.pad_top;
  g.pad_right = g.pad_left;
  return request;
}

size_t row_bytes(const Conv2dGeometry& g) {
  return static_cast<size_t>(g.w * g.c) * size_of(g.dtype);
}
/// Copies the rows and columns that both images have.
void copy_image(void* from, const Conv2dGeometry& of_from, void* to, const Conv2dGeometry& of_to,
                cudaStream_t stream) {
  const auto image = [](void* data, const Conv2dGeometry& g) {
    return cudaPitchedPtr{data, row_bytes(g), row_bytes(g), static_cast<size_t>(g.h)};
  };
  cudaMemcpy3DParms copied{};
  copied.srcPtr = image(from, of_from);
  copied.dstPtr = image(to, of_to);
  copied.extent = {std::min(row_bytes(of_from), row_bytes(of_to)),
                   static_cast<size_t>(std::min(of_from.h, of_to.h)),
                   static_cast<size_t>(of_from.n)};
  copied.kind = cudaMemcpyDeviceToDevice;
  check(cudaMemcpy3DAsync(&copied, stream), "copying an image to or from a padded one");
}

/// `algorithm`, which computes padded_evenly(request), as one for `request`.
ConvolutionAlgorithmPointer padded(const ConvolutionRequest& request,
                                   std::shared_ptr<ConvolutionAlgorithm> algorithm) {
  const Conv2dGeometry large = padded_evenly(request).geometry;
  const int64_t image_bytes =
      aligned_bytes(large.n * large.h * static_cast<int64_t>(row_bytes(large)));
  const auto run = [request, large, image_bytes, algorithm](const KernelSite& site,
                                                            const ConvolutionOperands& operands,
                                                            void* workspace) {
    ConvolutionOperands of_large = operands;
    of_large.x = workspace;
    const bool writes_x = request.pass == ConvolutionPass::backward_input;
    if (!writes_x) {
      check(cudaMemsetAsync(workspace, 0, static_cast<size_t>(image_bytes), site.stream),
            "padding an image");
      copy_image(operands.x, request.geometry, workspace, large, site.stream);
    }
    algorithm->run(site, of_large, static_cast<std::byte*>(workspace) + image_bytes);
    if (writes_x) copy_image(workspace, large, operands.x, request.geometry, site.stream);
  };
  return std::make_unique<FunctionAlgorithm<ConvolutionOperands>>(
      algorithm->name(), run, image_bytes + algorithm->workspace_bytes());
}

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

void ConvAlgorithms::forward_unfused(const ConvolutionRequest& request,
                                     const ConvolutionOperands& operands) {
  const ActivationSpec f = request.geometry.activation;
  if (!request.pooled) {
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
  const Pool2dGeometry pool = pooling_behind(request.geometry);
  const Scratch z(allocator_, result_bytes(request.geometry));
  ConvolutionRequest unpooled = request;
  unpooled.pooled = false;
  if (!first) unpooled.geometry.activation = {};
  run(unpooled, {.x = operands.x, .w = operands.w, .b = operands.b, .y = z.data()});
  pool2d_forward(context_, pool, z.data(), operands.y, operands.argmax);
  if (first) return;
  bias_activation(rows_of(pool), f, nullptr, nullptr, operands.y, context_.stream());
}

void ConvAlgorithms::backward_unfused(const ConvolutionRequest& weights,
                                      const ConvolutionOperands& of_weights,
                                      const ConvolutionOperands& of_input) {
  const Conv2dGeometry& g = weights.geometry;
  const Pool2dGeometry pool = pooling_behind(g);
  const ActivationSpec f = g.activation;
  void* dz = of_weights.y;  // (N, h_out, w_out, c_out), before activation and pooling
  std::optional<Scratch> scratch;
  const bool convolves = of_weights.w || of_input.x;
  if (convolves && (weights.pooled || f.kind != Activation::none)) {
    dz = scratch.emplace(allocator_, result_bytes(g)).data();
  }
  if (weights.pooled && convolves) {
    window_gradient(pool, f, of_weights.output, of_weights.y, of_weights.argmax, dz, of_weights.b,
                    context_, allocator_);
  } else {  // each window has one argmax: db is the sum of their gradients
    output_gradient(weights.pooled ? rows_of(pool) : rows_of(g), f, of_weights.output, of_weights.y,
                    scratch ? dz : nullptr, of_weights.b, context_, allocator_);
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
  const Pointer direct = direct_convolution(request);
  for (const Pointer& known : {own_kernel(request), last_resort(request), direct}) {
    if (known && known->name() == name) return known;
  }
  const auto engine = cudnn::EngineChoice::parse(name);
  const auto graph = engine ? graph_of(request) : nullptr;
  return graph ? usable(graph, request, *engine) : nullptr;
}

ConvAlgorithms::Choice ConvAlgorithms::untimed(const ConvolutionRequest& request,
                                               const ConvolutionOperands& /*operands*/) {
  const bool fused_norm = request.sums || request.normalised;
  Pointer algorithm = own_kernel(request);
  if (!algorithm) {
    algorithm = options_.without_libraries ? direct_convolution(request) : first_engine(request);
  }
  const bool unfused_may_fit = request.has_epilogue() && !options_.deterministic && algorithm &&
                               algorithm->workspace_bytes() > 0 && !fits(*algorithm);
  if (!algorithm || unfused_may_fit) algorithm = last_resort(request);
  if (!algorithm) fail(ErrorKind::internal, "cuDNN: no engine computes {}", request.describe());
  return {.algorithm = std::move(algorithm), .settled = fused_norm};
}

void ConvAlgorithms::prepare(const ConvolutionRequest& request,
                             const ConvolutionOperands& operands) {
  if (!may_prefer_unfused(request)) return;
  for (int use = 0; use < 2; ++use) last_resort(request)->run({}, operands, nullptr);
}

void ConvAlgorithms::propose(const ConvolutionRequest& request,
                             const ConvolutionOperands& /*operands*/, const Pointer& present,
                             const Search& search) {
  constexpr double heuristic_seconds = 5e-3;  // to propose engines, roughly
  if (may_prefer_unfused(request)) {
    search.consider(unfused_name, [&] { return last_resort(request); });
  }
  if (present->name() != unfused_name) search.consider(present->name(), [&] { return present; });
  if (const Pointer own = own_kernel(request)) search.consider(own->name(), [&] { return own; });
  const auto graph = search.pays(heuristic_seconds) ? graph_of(request) : nullptr;
  for (const auto heuristic : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!graph || !search.pays(heuristic_seconds)) break;
    for (const auto& engine : cudnn::proposals(*graph, heuristic)) {
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
  const ConvolutionRequest even = padded_evenly(request);
  auto algorithm = cudnn_convolution(std::move(graph), even, engine, options_.deterministic);
  if (!algorithm || algorithm->workspace_bytes() > options_.workspace_limit) return nullptr;
  if (even == request) return algorithm;
  return padded(request, std::move(algorithm));
}

ConvAlgorithms::Pointer ConvAlgorithms::first_engine(const ConvolutionRequest& request) {
  const auto graph = graph_of(request);
  if (!graph) return nullptr;
  for (const auto heuristic : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const auto& engine : cudnn::proposals(*graph, heuristic)) {
      if (auto algorithm = usable(graph, request, engine)) return algorithm;
    }
  }
  return nullptr;
}

ConvAlgorithms::Pointer ConvAlgorithms::own_kernel(const ConvolutionRequest& request) const {
  if (auto algorithm = few_channels_conv(request, context_.site())) return algorithm;
  return depthwise_convolution(request, context_.site());
}

ConvAlgorithms::Pointer ConvAlgorithms::last_resort(const ConvolutionRequest& request) {
  if (!request.has_epilogue()) return direct_convolution(request);
  // Its own requests are chosen by themselves.
  const auto run = [this, request](const KernelSite&, const ConvolutionOperands& o, void*) {
    if (request.pass == ConvolutionPass::forward) return forward_unfused(request, o);
    backward_unfused(request, o, {});
  };
  return std::make_shared<FunctionAlgorithm<ConvolutionOperands>>(unfused_name, run);
}

}  // namespace whisker::cuda
