// Exports a network around every case of tests/layers/layer_cases.h, and writes what it computes:
//   whisker_onnx_layer_cases FOLDER
// FOLDER/N.onnx and FOLDER/N.json (inputs, sequence lengths, outputs), which onnx_layers_test.py
// compares with ONNX Runtime.
#include "core/io/atomic_file.h"
#include "core/io/json.h"
#include "core/ops/ops.h"
#include "tests/layers/formula_weights.h"
#include "tests/layers/layer_cases.h"
#include "train/onnx/export_onnx.h"

#include <cstdio>
#include <exception>
#include <string>

namespace whisker::test {
namespace {

constexpr int64_t rows = 2, steps = 5, features = 6, tokens = 9;

Signature signature_of(LayerInput kind) {
  Signature signature{.classes = {"a", "b", "c"}};
  if (kind == LayerInput::image) {
    Preprocess images;
    images.size = {8, 8};
    signature.input = images;
  } else if (kind == LayerInput::sequence) {
    signature.input = RowsInput{
        .features = features, .most_steps = steps, .scaling = std::vector<Scaling>(features)};
  } else {
    signature.input = TextInput{};
  }
  return signature;
}

/// Images lose their axes before the last layer, so that the result is one row of classes.
Network network_of(const LayerCase& c) {
  Signature signature = signature_of(c.kind);
  const char* before = c.kind == LayerInput::image ? "{conv2d: {filters: 4, kernel: 1}}, " : "";
  const char* behind = c.kind == LayerInput::image ? "flatten, " : "";
  BuildOptions options = signature.build_options(rows, steps);
  options.classes = 0;  // some cases give a result for every step
  Model model = build_model(
      YamlNode::parse(
          fmt::format("{{fuse: false, layers: [{}{}, {}{{dense: 3}}]}}", before, c.item(), behind),
          "layer.yaml"),
      options);
  auto arena = std::make_shared<ParameterArena>(model.net->parameters(), cpu_device, 1);
  fill_by_formula(*model.net, *arena);
  return {std::move(model), std::move(arena), std::move(signature)};
}

Tensor input_of(const LayerCase& c, const Shape& shape) {
  if (c.kind == LayerInput::tokens) return rand_uniform(shape, 0, tokens, 1, 1).to(DType::i64);
  return rand_normal(shape, 0, 1, 1, 1);
}

void write_tensor(JsonWriter& json, const char* name, const Tensor& x) {
  json.key(name).begin_object();
  json.list("shape", x.shape()).list("values", x.to_vector());
  json.end_object();
}

std::string results_of(const LayerCase& c, const Network& network) {
  const bool image = c.kind == LayerInput::image;
  const Tensor x = input_of(c, network.model().input);
  Pass pass;
  if (!image) pass.lengths = from_vector({5, 3}, {rows}, {.dtype = DType::i64});
  JsonWriter json;
  json.begin_object().field("layer", c.text);
  write_tensor(json, image ? "images" : c.kind == LayerInput::tokens ? "tokens" : "values", x);
  if (!image) write_tensor(json, "lengths", pass.lengths);
  const NoGrad inference;
  write_tensor(json, "y", network.outputs(x, pass));
  return json.end_object().str();
}

int write_cases(const std::string& folder) {
  int number = 0;
  for (const LayerCase& c : layer_cases) {
    const Network network = network_of(c);
    const std::string name = fmt::format("{}/{}", folder, number++);
    write_file_atomically(name + ".onnx", export_onnx(network));
    write_file_atomically(name + ".json", results_of(c, network));
  }
  return 0;
}

}  // namespace
}  // namespace whisker::test

int main(int count, char** arguments) {
  if (count != 2) return 2;
  try {
    return whisker::test::write_cases(arguments[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
