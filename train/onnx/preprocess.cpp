#include "train/onnx/preprocess.h"

#include <array>
#include <vector>

namespace whisker {
namespace {

// ONNX's numbers of types, for Cast.
constexpr int64_t onnx_float = 1, onnx_int64 = 7, onnx_double = 11;

class PreprocessGraph {
 public:
  PreprocessGraph(OnnxGraph& graph, const Preprocess& preprocess)
      : graph_(graph), preprocess_(preprocess) {}

  std::string add(const std::string& pixels) {
    const std::string shape = graph_.node("Shape", {pixels});
    const std::string image = graph_.node("Transpose", {cast(pixels, onnx_float)},
                                          {{"perm", std::vector<int64_t>{0, 3, 1, 2}}});
    extents_ = graph_.node("Gather", {shape, graph_.integers({1, 2})});
    const std::string sizes = resized_extents();
    return normalised(placed(resized(image, sizes), sizes));
  }

 private:
  std::string cast(const std::string& x, int64_t type) {
    return graph_.node("Cast", {x}, {{"to", type}});
  }
  std::string integers(ImageSize size) { return graph_.integers({size.height, size.width}); }

  // Height and width after resizing: resized_extents() of data/transforms/preprocess.h.
  std::string resized_extents() {
    const ImageSize& size = preprocess_.size;
    if (preprocess_.resize_short != 0) {
      const std::string wanted =
          graph_.node("Mul", {extents_, graph_.integers({preprocess_.resize_short})});
      return graph_.node("Div", {wanted, shorter_side()});
    }
    if (preprocess_.resize_mode == ResizeMode::squash ||
        preprocess_.resize_mode == ResizeMode::squash_crop) {
      return integers(size);
    }
    const bool cover = preprocess_.resize_mode == ResizeMode::crop;
    const std::string given = cast(extents_, onnx_double);
    const std::string ratios = graph_.node("Div", {cast(integers(size), onnx_double), given});
    const std::string ratio = graph_.node(cover ? "ReduceMax" : "ReduceMin", {ratios});
    const std::string half = cast(graph_.constant({0.5f}), onnx_double);
    const std::string rounded =
        graph_.node("Floor", {graph_.node("Add", {graph_.node("Mul", {given, ratio}), half})});
    const std::string whole = cast(rounded, onnx_int64);
    if (cover) return graph_.node("Max", {whole, integers(size)});
    const std::string some = graph_.node("Max", {whole, graph_.integers({1})});
    return graph_.node("Min", {some, integers(size)});
  }
  std::string shorter_side() { return graph_.node("ReduceMin", {extents_}); }

  // Resizes as Pillow does: columns, then rows, each rounded to whole levels.
  std::string resized(const std::string& image, const std::string& sizes) {
    const std::string height = graph_.node("Gather", {sizes, graph_.integers({0})});
    const std::string width = graph_.node("Gather", {sizes, graph_.integers({1})});
    return resized_along(2, resized_along(3, image, width), height);
  }
  std::string resized_along(int64_t axis, const std::string& image, const std::string& size) {
    const bool cubic = preprocess_.interpolation == Interpolation::bicubic;
    std::vector<OnnxAttribute> attributes = {{"axes", std::vector<int64_t>{axis}},
                                             {"mode", std::string(cubic ? "cubic" : "linear")},
                                             {"antialias", int64_t{preprocess_.antialias ? 1 : 0}}};
    // Weights within the image sum up to 1.
    if (cubic || preprocess_.antialias) attributes.push_back({"exclude_outside", int64_t{1}});
    if (cubic) attributes.push_back({"cubic_coeff_a", -0.5f});  // Pillow's
    const std::string values = graph_.node("Resize", {image, "", "", size}, attributes);
    const std::string raised = graph_.node("Add", {values, graph_.constant({0.5f})});
    return graph_.node(
        "Clip", {graph_.node("Floor", {raised}), graph_.constant({0}), graph_.constant({255})});
  }

  // Half of `difference`, half to even.
  std::string half_of(const std::string& difference) {
    const std::string half =
        graph_.node("Mul", {cast(difference, onnx_float), graph_.constant({0.5f})});
    return cast(graph_.node("Round", {half}), onnx_int64);
  }

  // The center cut out, or bars around.
  std::string placed(const std::string& image, const std::string& sizes) {
    const std::string out = integers(preprocess_.output());
    const std::string axes = graph_.integers({2, 3});
    if (preprocess_.resize_mode == ResizeMode::letterbox) {
      const std::string before = half_of(graph_.node("Sub", {out, sizes}));
      const std::string behind = graph_.node("Sub", {graph_.node("Sub", {out, sizes}), before});
      const std::string pads = graph_.node("Concat", {before, behind}, {{"axis", int64_t{0}}});
      return graph_.node("Pad", {image, pads, graph_.constant({0}), axes});
    }
    const std::string begin = half_of(graph_.node("Sub", {sizes, out}));
    const std::string end = graph_.node("Add", {begin, out});
    return graph_.node("Slice", {image, begin, end, axes});
  }

  std::string normalised(const std::string& image) {
    const Normalisation& normal = preprocess_.normalisation;
    const auto channels = static_cast<size_t>(preprocess_.channels);
    std::string values = image;
    if (channels == 1) {  // gray_of() of core/image/image_pixels.h
      constexpr std::array<float, 3> parts = {19595.0f / 65536, 38470.0f / 65536, 7471.0f / 65536};
      const std::array<int64_t, 4> shape = {1, 3, 1, 1};
      const std::array<int64_t, 1> one = {1};
      const std::array<float, 1> half = {0.5f};
      values = graph_.node(
          "Floor", {graph_.node("Conv", {values, graph_.constant("gray.weight", shape, parts),
                                         graph_.constant("gray.bias", one, half)})});
    }
    std::vector<float> factors, offsets;
    for (size_t c = 0; c < channels; ++c) {
      factors.push_back(normal.factor(c));
      offsets.push_back(normal.offset(c));
    }
    const std::array<int64_t, 3> shape = {preprocess_.channels, 1, 1};
    const std::string scaled =
        graph_.node("Mul", {values, graph_.constant("preprocess.factor", shape, factors)});
    return graph_.node("Add", {scaled, graph_.constant("preprocess.offset", shape, offsets)});
  }

  OnnxGraph& graph_;
  const Preprocess& preprocess_;
  std::string extents_;  // height and width of the pixels
};

}  // namespace

std::string add_onnx_preprocess(OnnxGraph& graph, const Preprocess& preprocess,
                                const std::string& pixels) {
  return PreprocessGraph(graph, preprocess).add(pixels);
}

}  // namespace whisker
