// oneDNN 2.6 and 3. A convolution keeps its memory objects; a run only sets their pointers.
#include "core/cpu/dnnl_api.h"

#include "core/error.h"

#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

#include <oneapi/dnnl/dnnl.hpp>

namespace whisker::cpu {
namespace {

using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

constexpr auto f32_type = dnnl::memory::data_type::f32;
constexpr int64_t alignment = 64;

// Made on first use and kept: oneDNN's own state is per process too.
const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

void check(dnnl_status_t status, const char* what) {
  if (status != dnnl_success) {
    fail(ErrorKind::internal, "oneDNN: {} failed with status {}", what, static_cast<int>(status));
  }
}

int64_t aligned(int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

int64_t size_of(const Desc& desc) {
  return static_cast<int64_t>(desc.get_size());
}

Desc activation_desc(Layout layout, const Dims& dims) {
  switch (layout) {
    case Layout::plain:
      return {dims, f32_type, Tag::nhwc};
    case Layout::planar:
      return {dims, f32_type, Tag::nchw};
    case Layout::blocked:
      return {dims, f32_type, dnnl_channel_block() == 16 ? Tag::nChw16c : Tag::nChw8c};
  }
  return {};
}

/// Everything that describes one convolution to oneDNN.
struct Shapes {
  explicit Shapes(const ConvolutionRequest& r)
      : x(activation_desc(r.x, {r.geometry.n, r.geometry.c, r.geometry.h, r.geometry.w})),
        y(activation_desc(r.y,
                          {r.geometry.n, r.geometry.c_out, r.geometry.h_out, r.geometry.w_out})) {
    const Conv2dGeometry& g = r.geometry;
    const int64_t channels = g.c / g.groups;
    if (g.groups == 1) {
      const Dims dims = {g.c_out, channels, g.kernel_h, g.kernel_w};
      w_plain = Desc(dims, f32_type, Tag::ohwi);
      w = Desc(dims, f32_type, Tag::any);
    } else {
      const Dims dims = {g.groups, g.c_out / g.groups, channels, g.kernel_h, g.kernel_w};
      w_plain = Desc(dims, f32_type, Tag::gohwi);
      w = Desc(dims, f32_type, Tag::any);
    }
    if (r.bias) bias = Desc({g.c_out}, f32_type, Tag::a);
    strides = {g.stride_h, g.stride_w};
    dilations = {g.dilation_h - 1, g.dilation_w - 1};
    // The end padding that makes the output size exact, cut rows included.
    before = {g.pad_top, g.pad_left};
    after = {(g.h_out - 1) * g.stride_h + (g.kernel_h - 1) * g.dilation_h + 1 - g.h - g.pad_top,
             (g.w_out - 1) * g.stride_w + (g.kernel_w - 1) * g.dilation_w + 1 - g.w - g.pad_left};
  }
  Desc x, w, w_plain, bias, y;
  Dims strides, dilations, before, after;
};

dnnl::algorithm algorithm_of(const ConvolutionRequest& r) {
  return r.algorithm == ConvolutionAlgorithm::winograd ? dnnl::algorithm::convolution_winograd
                                                       : dnnl::algorithm::convolution_direct;
}

dnnl::primitive_attr attributes(const ConvolutionRequest& r) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const ActivationSpec& f = r.geometry.activation;
  if (r.pass == ConvolutionPass::forward &&
      (f.kind == Activation::relu || f.kind == Activation::leaky_relu)) {
    const float slope = f.kind == Activation::leaky_relu ? f.slope : 0.0f;
    dnnl::post_ops ops;
#if DNNL_VERSION_MAJOR >= 3
    ops.append_eltwise(dnnl::algorithm::eltwise_relu, slope, 0.0f);
#else
    ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, slope, 0.0f);
#endif
    attr.set_post_ops(ops);
  }
  return attr;
}

using Forward = dnnl::convolution_forward;
using BackwardInput = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

Forward::primitive_desc forward_desc(const ConvolutionRequest& r, const Shapes& s,
                                     const dnnl::primitive_attr& attr) {
  const auto kind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  return Forward::primitive_desc(engine(), kind, algorithm_of(r), s.x, s.w, s.bias, s.y, s.strides,
                                 s.dilations, s.before, s.after, attr);
#else
  return Forward::primitive_desc(Forward::desc(kind, algorithm_of(r), s.x, s.w, s.bias, s.y,
                                               s.strides, s.dilations, s.before, s.after),
                                 attr, engine());
#endif
}

BackwardInput::primitive_desc backward_input_desc(const ConvolutionRequest& r, const Shapes& s,
                                                  const dnnl::primitive_attr& attr,
                                                  const Forward::primitive_desc& hint) {
#if DNNL_VERSION_MAJOR >= 3
  return BackwardInput::primitive_desc(engine(), algorithm_of(r), s.x, s.w, s.y, s.strides,
                                       s.dilations, s.before, s.after, hint, attr);
#else
  return BackwardInput::primitive_desc(
      BackwardInput::desc(algorithm_of(r), s.x, s.w, s.y, s.strides, s.dilations, s.before,
                          s.after),
      attr, engine(), hint);
#endif
}

BackwardWeights::primitive_desc backward_weights_desc(const ConvolutionRequest& r, const Shapes& s,
                                                      const dnnl::primitive_attr& attr,
                                                      const Forward::primitive_desc& hint) {
#if DNNL_VERSION_MAJOR >= 3
  return BackwardWeights::primitive_desc(engine(), algorithm_of(r), s.x, s.w, s.bias, s.y,
                                         s.strides, s.dilations, s.before, s.after, hint, attr);
#else
  return BackwardWeights::primitive_desc(
      BackwardWeights::desc(algorithm_of(r), s.x, s.w, s.bias, s.y, s.strides, s.dilations,
                            s.before, s.after),
      attr, engine(), hint);
#endif
}

dnnl::memory unbound(const Desc& desc) {
  return {desc, engine(), nullptr};
}

}  // namespace

void dnnl_gemm(const Gemm& g) {
  check(dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, 1.0f, g.a,
                   g.lda, g.b, g.ldb, g.beta, g.c, g.ldc),
        "sgemm");
}

int dnnl_channel_block() {
#if defined(__x86_64__)
  static const int block = [] {
    const int isa = dnnl_isa();
    if (isa >= static_cast<int>(dnnl_cpu_isa_avx512_core)) return 16;
    return isa >= static_cast<int>(dnnl_cpu_isa_avx2) ? 8 : 0;
  }();
  return block;
#else
  return 0;
#endif
}

const char* dnnl_version_text() {
  static const std::string text = [] {
    const dnnl_version_t* v = dnnl_version();
    return fmt::format("oneDNN {}.{}.{}", v->major, v->minor, v->patch);
  }();
  return text.c_str();
}

int dnnl_isa() {
  return static_cast<int>(dnnl_get_effective_cpu_isa());
}

struct DnnlConvolution::Impl {
  ConvolutionPass pass = ConvolutionPass::forward;
  dnnl::stream stream{engine()};
  dnnl::primitive primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  dnnl::memory x, w, bias, y, scratchpad;
  dnnl::memory w_plain;
  dnnl::reorder reorder;  // of the weights, or of their gradient back; empty when not needed
  int64_t w_bytes = 0;    // of the reordered weights, at the start of the scratch memory
  int64_t scratch_bytes = 0;

  template <class PrimitiveDesc>
  bool take(const PrimitiveDesc& pd, const Shapes& s, const Desc& w_desc, bool gradient) {
    // Reference loops are slower than ours by orders of magnitude.
    if (std::string_view(pd.impl_info_str()).starts_with("ref")) return false;
    x = unbound(s.x);
    y = unbound(s.y);
    w = unbound(w_desc);
    w_plain = unbound(s.w_plain);
    scratchpad = unbound(pd.scratchpad_desc());
    if (w_desc != s.w_plain) {
      reorder = gradient ? dnnl::reorder(w, w_plain) : dnnl::reorder(w_plain, w);
      w_bytes = aligned(size_of(w_desc));
    }
    scratch_bytes = w_bytes + size_of(pd.scratchpad_desc());
    return true;
  }
};

DnnlConvolution::DnnlConvolution(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DnnlConvolution::~DnnlConvolution() = default;

std::unique_ptr<DnnlConvolution> DnnlConvolution::make(const ConvolutionRequest& r) try {
  auto impl = std::make_unique<Impl>();
  impl->pass = r.pass;
  const Shapes s(r);
  const dnnl::primitive_attr attr = attributes(r);
  const Forward::primitive_desc forward = forward_desc(r, s, attr);
  auto& arguments = impl->arguments;
  if (r.pass == ConvolutionPass::forward) {
    if (!impl->take(forward, s, forward.weights_desc(), false)) return nullptr;
    impl->primitive = Forward(forward);
    arguments = {{DNNL_ARG_SRC, impl->x}, {DNNL_ARG_WEIGHTS, impl->w}, {DNNL_ARG_DST, impl->y}};
    if (r.bias) arguments.emplace(DNNL_ARG_BIAS, impl->bias = unbound(s.bias));
  } else if (r.pass == ConvolutionPass::backward_input) {
    const auto pd = backward_input_desc(r, s, attr, forward);
    if (!impl->take(pd, s, pd.weights_desc(), false)) return nullptr;
    impl->primitive = BackwardInput(pd);
    arguments = {
        {DNNL_ARG_DIFF_SRC, impl->x}, {DNNL_ARG_WEIGHTS, impl->w}, {DNNL_ARG_DIFF_DST, impl->y}};
  } else {
    const auto pd = backward_weights_desc(r, s, attr, forward);
    if (!impl->take(pd, s, pd.diff_weights_desc(), true)) return nullptr;
    impl->primitive = BackwardWeights(pd);
    arguments = {
        {DNNL_ARG_SRC, impl->x}, {DNNL_ARG_DIFF_WEIGHTS, impl->w}, {DNNL_ARG_DIFF_DST, impl->y}};
    if (r.bias) arguments.emplace(DNNL_ARG_DIFF_BIAS, impl->bias = unbound(s.bias));
  }
  arguments.emplace(DNNL_ARG_SCRATCHPAD, impl->scratchpad);
  return std::unique_ptr<DnnlConvolution>(new DnnlConvolution(std::move(impl)));
} catch (const dnnl::error&) {
  return nullptr;  // oneDNN's way to say that it has no such implementation
}

int64_t DnnlConvolution::scratch_bytes() const {
  return impl_->scratch_bytes;
}

void DnnlConvolution::run(const ConvolutionOperands& operands, char* scratch) {
  Impl& c = *impl_;
  const bool reorders = c.w_bytes > 0;
  c.x.set_data_handle(operands.x);
  c.y.set_data_handle(operands.y);
  c.w.set_data_handle(reorders ? static_cast<void*>(scratch) : operands.w);
  if (reorders) c.w_plain.set_data_handle(operands.w);
  if (c.bias) c.bias.set_data_handle(operands.bias);
  c.scratchpad.set_data_handle(scratch + c.w_bytes);
  const bool gradient = c.pass == ConvolutionPass::backward_weights;
  if (reorders && !gradient) c.reorder.execute(c.stream, c.w_plain, c.w);
  c.primitive.execute(c.stream, c.arguments);
  if (reorders && gradient) c.reorder.execute(c.stream, c.w, c.w_plain);
  c.stream.wait();
}

}  // namespace whisker::cpu
