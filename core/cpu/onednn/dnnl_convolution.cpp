// A convolution keeps its memory objects; a run only sets their addresses.
#include "core/cpu/onednn/dnnl_convolution.h"

#include "core/cpu/onednn/dnnl_api.h"
#include "core/cpu/onednn/dnnl_versions.h"
#include "core/error.h"

#include <unordered_map>

namespace whisker::cpu {
namespace {

using Forward = dnnl::convolution_forward;
using BackwardInput = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

constexpr int64_t alignment = 64;

int64_t aligned(int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

DnnlTag tag_of(Layout layout) {
  if (layout == Layout::plain) return DnnlTag::nhwc;
  if (layout == Layout::planar) return DnnlTag::nchw;
  return dnnl_channel_block() == 16 ? DnnlTag::nChw16c : DnnlTag::nChw8c;
}

DnnlDims weight_dims(const Conv2dGeometry& g) {
  if (g.groups == 1) return {g.c_out, g.c, g.kernel_h, g.kernel_w};
  return {g.groups, g.c_out / g.groups, g.c / g.groups, g.kernel_h, g.kernel_w};
}

/// In memory: (c_out, kernel_h, kernel_w, c / groups).
DnnlDesc plain_weights(const Conv2dGeometry& g) {
  const DnnlTag tag = g.groups == 1 ? DnnlTag::ohwi : DnnlTag::gohwi;
  return {weight_dims(g), dnnl_type(g.dtype), tag};
}

dnnl::primitive_attr attributes(const ConvolutionRequest& r) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const ActivationSpec& f = r.geometry.activation;
  if (r.pass == ConvolutionPass::forward &&
      (f.kind == Activation::relu || f.kind == Activation::leaky_relu)) {
    dnnl::post_ops ops;
    append_relu(ops, f.kind == Activation::leaky_relu ? f.slope : 0.0f);
    attr.set_post_ops(ops);
  }
  return attr;
}

constexpr const char* name_of(Layout layout) {
  constexpr const char* names[] = {" plain", " blocked", " planar"};
  return names[static_cast<size_t>(layout)];
}

struct PackedWeights {
  PackedWeights(Allocator& allocator, const DnnlDesc& order, int64_t bytes)
      : desc(order), memory(allocator, bytes) {}

  DnnlDesc desc;
  Scratch<char> memory;
};

}  // namespace

std::string ConvolutionRequest::describe() const {
  std::string text = fmt::format("{} {}", name_of(pass), text_of(geometry, name_of(x), name_of(y)));
  if (geometry.dtype != DType::f32) text += fmt::format(" {}", geometry.dtype);
  if (constant_weights) text += " constant_weights";
  return text;
}

struct DnnlConvolution::Impl {
  ConvolutionPass pass = ConvolutionPass::forward;
  ConvolutionAlgorithm algorithm = ConvolutionAlgorithm::direct;
  dnnl::stream stream{dnnl_engine()};
  dnnl::primitive primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  dnnl::memory x, w, bias, y, scratchpad;
  dnnl::memory w_plain;
  dnnl::reorder reorder;  // of the weights, or of their gradient back; empty when not needed
  int64_t w_bytes = 0;    // of the reordered weights, at the start of the scratch memory
  int64_t scratch_bytes = 0;

  template <class PrimitiveDesc>
  bool take(const PrimitiveDesc& pd, const DnnlDesc& plain, const DnnlDesc& w_desc, bool gradient) {
    if (dnnl_reference(pd)) return false;
    w = dnnl_unbound(w_desc);
    w_plain = dnnl_unbound(plain);
    scratchpad = dnnl_unbound(pd.scratchpad_desc());
    if (w_desc != plain) {
      reorder = gradient ? dnnl::reorder(w, w_plain) : dnnl::reorder(w_plain, w);
      w_bytes = aligned(dnnl_bytes(w_desc));
    }
    scratch_bytes = w_bytes + dnnl_bytes(pd.scratchpad_desc());
    return true;
  }

  void pack(void* plain, void* to) {
    w_plain.set_data_handle(plain);
    w.set_data_handle(to);
    reorder.execute(stream, w_plain, w);
  }

  /// The packed weights, made where there are none in this order; null where memory is short.
  void* packed(Allocator& allocator, const ConvolutionOperands& operands) try {
    auto kept = std::static_pointer_cast<PackedWeights>(*operands.packed);
    if (!kept || kept->desc != w.get_desc()) {
      kept = std::make_shared<PackedWeights>(allocator, w.get_desc(), w_bytes);
      pack(operands.w, kept->memory.data());
      *operands.packed = kept;
    }
    return kept->memory.data();
  } catch (const OutOfMemory&) {
    return nullptr;
  }
};

DnnlConvolution::DnnlConvolution(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DnnlConvolution::~DnnlConvolution() = default;

std::unique_ptr<DnnlConvolution> DnnlConvolution::make(const ConvolutionRequest& r,
                                                       ConvolutionAlgorithm algorithm) try {
  dnnl_check_memory();
  auto impl = std::make_unique<Impl>();
  impl->pass = r.pass;
  impl->algorithm = algorithm;
  const Conv2dGeometry& g = r.geometry;
  const auto type = dnnl_type(g.dtype);
  const DnnlDesc x({g.n, g.c, g.h, g.w}, type, tag_of(r.x));
  const DnnlDesc w(weight_dims(g), type, DnnlTag::any), plain = plain_weights(g);
  const DnnlDesc bias = g.bias ? DnnlDesc({g.c_out}, type, DnnlTag::a) : DnnlDesc();
  const DnnlDesc y({g.n, g.c_out, g.h_out, g.w_out}, type, tag_of(r.y));
  impl->x = dnnl_unbound(x);
  impl->y = dnnl_unbound(y);
  const auto kind = algorithm == ConvolutionAlgorithm::winograd
                        ? dnnl::algorithm::convolution_winograd
                        : dnnl::algorithm::convolution_direct;
  // Here a dilation of 0 is none. The end padding makes the output size exact, cut rows included.
  const DnnlDims strides{g.stride_h, g.stride_w}, dilations{g.dilation_h - 1, g.dilation_w - 1};
  const DnnlDims before{g.pad_top, g.pad_left};
  const DnnlDims after{
      (g.h_out - 1) * g.stride_h + (g.kernel_h - 1) * g.dilation_h + 1 - g.h - g.pad_top,
      (g.w_out - 1) * g.stride_w + (g.kernel_w - 1) * g.dilation_w + 1 - g.w - g.pad_left};
  const dnnl::primitive_attr attr = attributes(r);
  const auto forward = described<Forward>(std::tuple(dnnl::prop_kind::forward_training, kind, x, w,
                                                     bias, y, strides, dilations, before, after),
                                          attr);
  auto& arguments = impl->arguments;
  if (r.pass == ConvolutionPass::forward) {
    if (!impl->take(forward, plain, forward.weights_desc(), false)) return nullptr;
    impl->primitive = Forward(forward);
    arguments = {{DNNL_ARG_SRC, impl->x}, {DNNL_ARG_WEIGHTS, impl->w}, {DNNL_ARG_DST, impl->y}};
    if (g.bias) arguments.emplace(DNNL_ARG_BIAS, impl->bias = dnnl_unbound(bias));
  } else if (r.pass == ConvolutionPass::backward_input) {
    const auto pd = described<BackwardInput>(
        std::tuple(kind, x, w, y, strides, dilations, before, after), attr, forward);
    if (!impl->take(pd, plain, pd.weights_desc(), false)) return nullptr;
    impl->primitive = BackwardInput(pd);
    arguments = {
        {DNNL_ARG_DIFF_SRC, impl->x}, {DNNL_ARG_WEIGHTS, impl->w}, {DNNL_ARG_DIFF_DST, impl->y}};
  } else {
    const auto pd = described<BackwardWeights>(
        std::tuple(kind, x, w, bias, y, strides, dilations, before, after), attr, forward);
    if (!impl->take(pd, plain, pd.diff_weights_desc(), true)) return nullptr;
    impl->primitive = BackwardWeights(pd);
    arguments = {
        {DNNL_ARG_SRC, impl->x}, {DNNL_ARG_DIFF_WEIGHTS, impl->w}, {DNNL_ARG_DIFF_DST, impl->y}};
  }
  arguments.emplace(DNNL_ARG_SCRATCHPAD, impl->scratchpad);
  return std::unique_ptr<DnnlConvolution>(new DnnlConvolution(std::move(impl)));
} catch (const dnnl::error&) {
  return nullptr;  // no such implementation
}

const char* DnnlConvolution::name() const {
  return name_of(impl_->algorithm);
}

int64_t DnnlConvolution::scratch_bytes() const {
  return impl_->scratch_bytes;
}

void DnnlConvolution::run(Allocator& allocator, const ConvolutionOperands& operands) {
  Impl& c = *impl_;
  const Scratch<char> scratch(allocator, c.scratch_bytes);
  const bool reorders = c.w_bytes > 0;
  const bool gradient = c.pass == ConvolutionPass::backward_weights;
  void* w = reorders && operands.packed ? c.packed(allocator, operands) : nullptr;
  if (!w) {
    w = reorders ? static_cast<void*>(scratch.data()) : operands.w;
    if (reorders && !gradient) c.pack(operands.w, w);
  }
  c.x.set_data_handle(operands.x);
  c.y.set_data_handle(operands.y);
  c.w.set_data_handle(w);
  if (c.bias) c.bias.set_data_handle(operands.bias);
  c.scratchpad.set_data_handle(scratch.data() + c.w_bytes);
  c.primitive.execute(c.stream, c.arguments);
  if (reorders && gradient) {
    c.w_plain.set_data_handle(operands.w);
    c.reorder.execute(c.stream, c.w, c.w_plain);
  }
  c.stream.wait();
}

}  // namespace whisker::cpu
