// Rows to and from JSON: see Note [CPU autotune table].
#include "core/cpu/onednn/autotune_table.h"

#include "core/cpu/onednn/dnnl_api.h"
#include "core/cpu/support/parallel.h"
#include "core/io/json.h"
#include "core/tensor/dtype.h"

namespace whisker::cpu {
namespace {

std::string_view name_of(ConvolutionAlgorithm algorithm) {
  return algorithm == ConvolutionAlgorithm::winograd ? "winograd" : "direct";
}

std::string_view name_of(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      return "forward";
    case ConvolutionPass::backward_input:
      return "backward_input";
    case ConvolutionPass::backward_weights:
      break;
  }
  return "backward_weights";
}

std::string_view name_of(Layout layout) {
  switch (layout) {
    case Layout::plain:
      return "plain";
    case Layout::blocked:
      return "blocked";
    case Layout::planar:
      break;
  }
  return "planar";
}

// Every member of the request but the algorithm, so that different requests have different texts.
std::string describe(const ConvolutionRequest& r) {
  const Conv2dGeometry& g = r.geometry;
  std::string text = fmt::format(
      "{} x({},{},{},{}) {} w({},{},{},{}) y({},{}) {} stride {},{} padding {},{},{},{}",
      name_of(r.pass), g.n, g.h, g.w, g.c, name_of(r.x), g.c_out, g.kernel_h, g.kernel_w,
      g.groups > 0 ? g.c / g.groups : 0, g.h_out, g.w_out, name_of(r.y), g.stride_h, g.stride_w,
      g.pad_top, g.pad_left, g.pad_bottom, g.pad_right);
  if (g.dilation_h != 1 || g.dilation_w != 1) {
    text += fmt::format(" dilation {},{}", g.dilation_h, g.dilation_w);
  }
  if (g.groups != 1) text += fmt::format(" groups {}", g.groups);
  if (r.bias) text += " bias";
  if (g.bias) text += " geometry_bias";
  if (g.activation.kind != Activation::none || g.activation.slope != ActivationSpec{}.slope) {
    text += fmt::format(" {} {}", whisker::name_of(g.activation.kind), g.activation.slope);
  }
  if (g.dtype != DType::f32) text += fmt::format(" {}", g.dtype);
  if (r.constant_weights) text += " constant_weights";
  return text;
}

}  // namespace

std::optional<ConvolutionAlgorithm> AutotuneTable::find(const ConvolutionRequest& request) const {
  const auto found = rows_.find(describe(request));
  return found == rows_.end() ? std::nullopt : std::optional(found->second);
}

void AutotuneTable::set(const ConvolutionRequest& request, ConvolutionAlgorithm algorithm) {
  rows_[describe(request)] = algorithm;
}

std::string AutotuneTable::text() const {
  if (rows_.empty()) return "";
  JsonWriter json;
  json.begin_object().field("library", dnnl_version_text()).field("isa", dnnl_isa());
  json.field("threads", most_threads()).key("convolutions").begin_object();
  for (const auto& [convolution, algorithm] : rows_) json.field(convolution, name_of(algorithm));
  json.end_object().end_object();
  return json.str();
}

void AutotuneTable::add(std::string_view text) {
  if (text.empty()) return;
  const JsonValue json =
      JsonValue::parse(text, {.name = "autotune table", .kind = ErrorKind::checkpoint});
  if (json.find("cudnn")) return;  // a table of the CUDA backend
  const bool same_environment = json.at("library").as_string() == dnnl_version_text() &&
                                json.at("isa").as_int() == dnnl_isa() &&
                                json.at("threads").as_int() == most_threads();
  if (!same_environment) return;
  auto rows = rows_;
  for (const auto& [convolution, value] : json.at("convolutions").members()) {
    const std::string& name = value.as_string();
    const bool winograd = name == name_of(ConvolutionAlgorithm::winograd);
    if (!winograd && name != name_of(ConvolutionAlgorithm::direct)) {
      fail(ErrorKind::checkpoint, "autotune table: {}: expected direct or winograd, got '{}'",
           convolution, name);
    }
    rows[convolution] = winograd ? ConvolutionAlgorithm::winograd : ConvolutionAlgorithm::direct;
  }
  rows_ = std::move(rows);
}

}  // namespace whisker::cpu
