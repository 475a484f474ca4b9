// Common parts of the sources of dnnl_*.h, and all differences between oneDNN 2 and 3, whose
// primitives have no operation descriptors.
#pragma once

#include "core/tensor/dtype.h"

#include <cstdint>
#include <string_view>
#include <tuple>

#include <oneapi/dnnl/dnnl.hpp>

namespace whisker::cpu {

using DnnlTag = dnnl::memory::format_tag;
using DnnlDesc = dnnl::memory::desc;
using DnnlDims = dnnl::memory::dims;

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

inline void append_relu(dnnl::post_ops& ops, float slope) {
#if DNNL_VERSION_MAJOR >= 3
  ops.append_eltwise(dnnl::algorithm::eltwise_relu, slope, 0.0f);
#else
  ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, slope, 0.0f);
#endif
}

/// The description of a primitive from the arguments of its operation, a tuple; a gradient's has
/// that of the forward pass as its hint.
template <class Primitive, class Arguments, class... Hint>
typename Primitive::primitive_desc described(const Arguments& arguments,
                                             const dnnl::primitive_attr& attr,
                                             const Hint&... hint) {
  return std::apply(
      [&](const auto&... argument) -> typename Primitive::primitive_desc {
#if DNNL_VERSION_MAJOR >= 3
        return {dnnl_engine(), argument..., hint..., attr};
#else
        return {typename Primitive::desc(argument...), attr, dnnl_engine(), hint...};
#endif
      },
      arguments);
}

}  // namespace whisker::cpu
