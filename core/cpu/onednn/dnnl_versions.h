// Common parts of the sources of dnnl_*.h, and all differences between oneDNN 2 and 3, whose
// primitives have no operation descriptors.
#pragma once

#include "core/tensor/dtype.h"

#include <cstdint>
#include <string_view>

#include <oneapi/dnnl/dnnl.hpp>

namespace whisker::cpu {

using DnnlTag = dnnl::memory::format_tag;
using DnnlDesc = dnnl::memory::desc;
using DnnlDims = dnnl::memory::dims;
using DnnlForward = dnnl::convolution_forward;
using DnnlBackwardInput = dnnl::convolution_backward_data;
using DnnlBackwardWeights = dnnl::convolution_backward_weights;

/// Created on first use and kept, as oneDNN's own state is.
const dnnl::engine& dnnl_engine();

inline dnnl::memory::data_type dnnl_type(DType dtype) {
  return dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}
inline int64_t dnnl_bytes(const DnnlDesc& desc) {
  return static_cast<int64_t>(desc.get_size());
}
/// Memory whose address comes with each run.
inline dnnl::memory dnnl_unbound(const DnnlDesc& desc) {
  return {desc, dnnl_engine(), nullptr};
}
/// True for oneDNN's reference loops, orders of magnitude slower than Whisker's own.
template <class PrimitiveDesc>
bool dnnl_reference(const PrimitiveDesc& pd) {
  return std::string_view(pd.impl_info_str()).starts_with("ref");
}

/// A convolution in oneDNN's terms; a dilation of 0 is none.
struct DnnlShapes {
  dnnl::algorithm algorithm;
  DnnlDesc x, w, bias, y;
  DnnlDims strides, dilations, before, after;
};

#if DNNL_VERSION_MAJOR >= 3

inline void append_relu(dnnl::post_ops& ops, float slope) {
  ops.append_eltwise(dnnl::algorithm::eltwise_relu, slope, 0.0f);
}
inline DnnlForward::primitive_desc forward_desc(const DnnlShapes& s,
                                                const dnnl::primitive_attr& attr) {
  return {dnnl_engine(), dnnl::prop_kind::forward_training,
          s.algorithm,   s.x,
          s.w,           s.bias,
          s.y,           s.strides,
          s.dilations,   s.before,
          s.after,       attr};
}
inline DnnlBackwardInput::primitive_desc backward_input_desc(
    const DnnlShapes& s, const dnnl::primitive_attr& attr,
    const DnnlForward::primitive_desc& hint) {
  return {dnnl_engine(), s.algorithm, s.x,     s.w,  s.y, s.strides,
          s.dilations,   s.before,    s.after, hint, attr};
}
inline DnnlBackwardWeights::primitive_desc backward_weights_desc(
    const DnnlShapes& s, const dnnl::primitive_attr& attr,
    const DnnlForward::primitive_desc& hint) {
  return {dnnl_engine(), s.algorithm, s.x,      s.w,     s.bias, s.y,
          s.strides,     s.dilations, s.before, s.after, hint,   attr};
}
inline dnnl::matmul::primitive_desc matmul_desc(const DnnlDesc& a, const DnnlDesc& b,
                                                const DnnlDesc& y,
                                                const dnnl::primitive_attr& attr) {
  return {dnnl_engine(), a, b, y, attr};
}

#else

inline void append_relu(dnnl::post_ops& ops, float slope) {
  ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, slope, 0.0f);
}
inline DnnlForward::primitive_desc forward_desc(const DnnlShapes& s,
                                                const dnnl::primitive_attr& attr) {
  return {DnnlForward::desc(dnnl::prop_kind::forward_training, s.algorithm, s.x, s.w, s.bias, s.y,
                            s.strides, s.dilations, s.before, s.after),
          attr, dnnl_engine()};
}
inline DnnlBackwardInput::primitive_desc backward_input_desc(
    const DnnlShapes& s, const dnnl::primitive_attr& attr,
    const DnnlForward::primitive_desc& hint) {
  return {DnnlBackwardInput::desc(s.algorithm, s.x, s.w, s.y, s.strides, s.dilations, s.before,
                                  s.after),
          attr, dnnl_engine(), hint};
}
inline DnnlBackwardWeights::primitive_desc backward_weights_desc(
    const DnnlShapes& s, const dnnl::primitive_attr& attr,
    const DnnlForward::primitive_desc& hint) {
  return {DnnlBackwardWeights::desc(s.algorithm, s.x, s.w, s.bias, s.y, s.strides, s.dilations,
                                    s.before, s.after),
          attr, dnnl_engine(), hint};
}
inline dnnl::matmul::primitive_desc matmul_desc(const DnnlDesc& a, const DnnlDesc& b,
                                                const DnnlDesc& y,
                                                const dnnl::primitive_attr& attr) {
  return {dnnl::matmul::desc(a, b, y), attr, dnnl_engine()};
}

#endif

}  // namespace whisker::cpu
