// See Note [Choosing a convolution].
#include "core/cuda/convolution/conv_algorithms.h"

#include "core/cuda/convolution/few_channels/few_channels_conv.h"
#include "core/cuda/ops/launchers.h"

#include <optional>

namespace whisker::cuda {
namespace {

constexpr const char* unfused_name = "unfused";

/// Max-pooling behind `g` as an epilogue computes it.
Pool2dGeometry pooling_behind(const Conv2dGeometry& g) {
  Pool2dGeometry pool{.n = g.n, .h = g.h_out, .w = g.w_out, .c = g.c_out};
  pool.kernel_h = pool.kernel_w = pool.stride_h = pool.stride_w = 2;
  pool.h_out = g.h_out / 2, pool.w_out = g.w_out / 2;
  pool.dtype = g.dtype;
  return pool;
}

/// A request in several steps. Its own requests are chosen by themselves.
class UnfusedConvolution final : public ConvolutionAlgorithm {
 public:
  UnfusedConvolution(ConvAlgorithms& all, const ConvolutionRequest& request)
      : all_(all), request_(request) {}
  std::string name() const override { return unfused_name; }
  void run(const KernelSite& /*site*/, const ConvolutionOperands& operands,
           void* /*workspace*/) const override {
    const Pool2dGeometry behind = pooling_behind(request_.geometry);
    const Pool2dGeometry* const pool = request_.pooled ? &behind : nullptr;
    if (request_.pass == ConvolutionPass::forward) {
      all_.forward_unfused(request_, pool, operands);
    } else {
      all_.backward_unfused(request_, pool, operands, {});
    }
  }

 private:
  ConvAlgorithms& all_;
  ConvolutionRequest request_;
};

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

/// `algorithm`, which computes padded_evenly(request), as one for `request`.
class PaddedConvolution final : public ConvolutionAlgorithm {
 public:
  PaddedConvolution(const ConvolutionRequest& request, ConvolutionAlgorithmPointer algorithm)
      : pass_(request.pass),
        small_(request.geometry),
        large_(padded_evenly(request).geometry),
        algorithm_(std::move(algorithm)) {}

  std::string name() const override { return algorithm_->name(); }
  int64_t workspace_bytes() const override { return image_bytes() + algorithm_->workspace_bytes(); }

  void run(const KernelSite& site, const ConvolutionOperands& operands,
           void* workspace) const override {
    ConvolutionOperands padded = operands;
    padded.x = workspace;
    const bool writes_x = pass_ == ConvolutionPass::backward_input;
    if (!writes_x) {
      check(cudaMemsetAsync(workspace, 0, static_cast<size_t>(image_bytes()), site.stream),
            "padding an image");
      copy(operands.x, small_, workspace, large_, site.stream);
    }
    algorithm_->run(site, padded, static_cast<std::byte*>(workspace) + image_bytes());
    if (writes_x) copy(workspace, large_, operands.x, small_, site.stream);
  }

 private:
  size_t row_bytes(const Conv2dGeometry& g) const {
    return static_cast<size_t>(g.w * g.c) * size_of(g.dtype);
  }
  /// The larger x, in whole units of the allocator's alignment.
  int64_t image_bytes() const {
    const int64_t bytes = large_.n * large_.h * static_cast<int64_t>(row_bytes(large_));
    return (bytes + 255) / 256 * 256;
  }
  /// What both images have: all of the smaller.
  void copy(void* from, const Conv2dGeometry& of_from, void* to, const Conv2dGeometry& of_to,
            cudaStream_t stream) const {
    const auto image = [&](void* data, const Conv2dGeometry& g) {
      return cudaPitchedPtr{.ptr = data,
                            .pitch = row_bytes(g),
                            .xsize = row_bytes(g),
                            .ysize = static_cast<size_t>(g.h)};
    };
    cudaMemcpy3DParms copied{};
    copied.srcPtr = image(from, of_from);
    copied.dstPtr = image(to, of_to);
    copied.extent = {.width = row_bytes(small_),
                     .height = static_cast<size_t>(small_.h),
                     .depth = static_cast<size_t>(small_.n)};
    copied.kind = cudaMemcpyDeviceToDevice;
    check(cudaMemcpy3DAsync(&copied, stream), "copying an image to or from a padded one");
  }

  const ConvolutionPass pass_;
  const Conv2dGeometry small_, large_;  // of x without and with the padding
  const ConvolutionAlgorithmPointer algorithm_;
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
  if (const Pointer own = own_kernel(request)) search.consider(own->name(), [&] { return own; });
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
  const ConvolutionRequest even = padded_evenly(request);
  auto algorithm = CudnnConvolution::make(std::move(graph), even, engine);
  if (!algorithm || algorithm->workspace_bytes() > options_.workspace_limit) return nullptr;
  if (!admissible(request, algorithm->notes(), options_.deterministic)) return nullptr;
  if (even == request) return algorithm;
  return std::make_unique<PaddedConvolution>(request, std::move(algorithm));
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

ConvAlgorithms::Pointer ConvAlgorithms::own_kernel(const ConvolutionRequest& request) const {
  if (auto algorithm = few_channels_conv(request, site())) return algorithm;
  return depthwise_convolution(request, site());
}

ConvAlgorithms::Pointer ConvAlgorithms::last_resort(const ConvolutionRequest& request) {
  if (request.has_epilogue()) return std::make_shared<UnfusedConvolution>(*this, request);
  return direct_convolution(request);
}

}  // namespace whisker::cuda
