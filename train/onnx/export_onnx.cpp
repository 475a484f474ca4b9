#include "train/onnx/export_onnx.h"

#include "core/io/checksum_mark.h"
#include "core/io/json.h"
#include "train/onnx/graph.h"
#include "train/onnx/layers.h"
#include "train/onnx/preprocess.h"

#include <memory>

namespace whisker {
namespace {

constexpr int64_t opset_version = 17;
constexpr const char *batch = "batch", *steps = "steps";

std::string class_names(const Signature& signature) {
  JsonWriter names;
  names.begin_array();
  for (const std::string& name : signature.classes) names.value(name);
  return names.end_array().str();
}

class Export {
 public:
  Export(const Network& network, const OnnxOptions& options)
      : network_(network),
        options_(options),
        graph_("whisker", options.preprocess ? onnx_preprocess_opset : opset_version) {}

  std::string bytes() {
    const Signature& signature = network_.signature();
    OnnxContext context{.graph = graph_, .arena = network_.arena()};
    const bool padded = std::holds_alternative<RowsInput>(signature.input) ||
                        (std::holds_alternative<TextInput>(signature.input) &&
                         signature.task() == Task::classification);
    if (padded) context.lengths = [this] { return lengths(); };
    const OnnxValue x{add_input(), network_.model().input};
    const OnnxValue y = add_onnx_layer(context, *network_.model().net, x);
    add_output(y);
    graph_.metadata("classes", class_names(signature));
    graph_.metadata(signature.input_key(), signature.input_json());
    if (signature.calibration) graph_.metadata(calibration_key, signature.calibration->json());
    if (!network_.model().preset.empty()) graph_.metadata("arch", network_.model().preset);
    return graph_.bytes();
  }

 private:
  std::string add_input() {
    const Signature& signature = network_.signature();
    const auto* preprocess = std::get_if<Preprocess>(&signature.input);
    if (options_.preprocess && !preprocess) {
      fail(ErrorKind::usage, "export: --preprocess: expected a network on images, got one on {}",
           signature.examples());
    }
    if (preprocess && options_.preprocess) {
      graph_.input("pixels", OnnxType::u8, {batch, "height", "width", int64_t{3}});
      return add_onnx_preprocess(graph_, *preprocess, "pixels");
    }
    if (preprocess) {
      const ImageSize size = preprocess->output();
      graph_.input(
          "images", OnnxType::f32,
          {batch, int64_t{preprocess->channels}, int64_t{size.height}, int64_t{size.width}});
      return "images";
    }
    if (std::holds_alternative<TextInput>(signature.input)) {
      graph_.input("tokens", OnnxType::i64, {steps, batch});
      return "tokens";
    }
    graph_.input("values", OnnxType::f32, {steps, batch, network_.model().input[-1]});
    return "values";
  }

  // The lengths that `sequence_lens` of recurrent nodes wants.
  std::string lengths() {
    if (lengths_.empty()) {
      constexpr int64_t onnx_int32 = 6;
      graph_.input("lengths", OnnxType::i64, {batch});
      lengths_ = graph_.node("Cast", {"lengths"}, {{"to", onnx_int32}});
    }
    return lengths_;
  }

  void add_output(const OnnxValue& y) {
    const Task task = network_.signature().task();
    if (options_.probabilities && task == Task::regression) {
      fail(ErrorKind::usage, "export: --probabilities: a forecast has none");
    }
    std::string name = "logits", result = y.name;
    int64_t width = y.shape[-1];
    if (task == Task::regression) name = "forecast";
    if (options_.probabilities) {
      name = "probabilities";
      if (const auto& calibration = network_.signature().calibration) {
        const auto factor = static_cast<float>(1 / calibration->temperature);
        result = graph_.node("Mul", {result, graph_.constant({factor})});
      }
      if (network_.model().output_kind == OutputKind::softmax) {
        result = graph_.node("Softmax", {result}, {{"axis", int64_t{-1}}});
      } else {
        const std::string second = graph_.node("Sigmoid", {result});
        const std::string first = graph_.node("Sub", {graph_.constant({1}), second});
        result = graph_.node("Concat", {first, second}, {{"axis", int64_t{-1}}});
        width = 2;
      }
    }
    graph_.node("Identity", {result}, {}, name);
    std::vector<OnnxExtent> shape = {batch, width};
    if (y.shape.rank() == 3) shape = {steps, batch, width};
    graph_.output(name, OnnxType::f32, shape);
  }

  const Network& network_;
  const OnnxOptions& options_;
  OnnxGraph graph_;
  std::string lengths_;
};

}  // namespace

std::string export_onnx(const Network& network, const OnnxOptions& options) {
  return Export(network, options).bytes();
}

bool is_own_onnx(std::string_view content) {
  return checksum_matches(content, onnx_mark);
}

}  // namespace whisker
