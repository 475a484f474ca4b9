// Every YAML block of docs/reference/models.md builds, and so do the networks that configurations
// describe.
#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/io/file.h"
#include "core/ops/ops.h"
#include "core/parameters/parameters.h"
#include "layers/builder/model_builder.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

std::vector<std::string> yaml_blocks(const std::string& text) {
  const std::string open = "```yaml\n", close = "```";
  std::vector<std::string> blocks;
  for (size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    const size_t end = text.find(close, at);
    blocks.push_back(text.substr(at, end - at));
    at = end;
  }
  return blocks;
}

TEST(ModelDocs, EveryExampleBuilds) {
  const std::string path = WHISKER_SOURCE_DIR "/docs/reference/models.md";
  const std::vector<std::string> blocks = yaml_blocks(read_file(path, 1 << 20, ErrorKind::data));
  EXPECT_EQ(blocks.size(), 10u);
  for (const std::string& block : blocks) {
    const YamlNode root = YamlNode::parse(block, "models.md");
    const Model model = build_model(*root.find("model"), {.input = {2, 64, 64, 3}, .classes = 3});
    EXPECT_EQ(model.output, (Shape{2, 3})) << block;
  }
}

// The page's example of squeeze-and-excitation.
TEST(ModelDocs, MultipliedBranchesTrain) {
  const std::string path = WHISKER_SOURCE_DIR "/docs/reference/models.md";
  for (const std::string& block : yaml_blocks(read_file(path, 1 << 20, ErrorKind::data))) {
    if (block.find("multiply") == std::string::npos) continue;
    const YamlNode root = YamlNode::parse(block, "models.md");
    const Model model = build_model(*root.find("model"), {.input = {6, 12, 12, 3}, .classes = 3});
    ParameterArena arena(model.net->parameters(), cpu_device, 1);
    const Tensor labels = from_vector({0, 1, 2, 0, 1, 2}, {6}, {.dtype = DType::i64});
    std::vector<double> pixels = rand_normal(model.input, 0, 0.3, 1, 1).to_vector();
    for (size_t i = 0; i < pixels.size(); ++i) {  // each class is bright in a channel of its own
      if (i / (12 * 12 * 3) % 3 == i % 3) pixels[i] += 2;
    }
    const Tensor images = from_vector(pixels, model.input);
    std::vector<double> losses;
    for (int step = 0; step < 25; ++step) {
      arena.zero_grad();
      const Tensor loss = cross_entropy((*model.net)(images, {.training = true}), labels);
      backward(loss);
      losses.push_back(loss.item());
      for (const ParameterRun& run : arena.runs()) {
        std::vector<double> values = run.value.to_vector();
        const std::vector<double> gradient = run.gradient.to_vector();
        for (size_t i = 0; i < values.size(); ++i) values[i] -= 0.2 * gradient[i];
        const Tensor updated = from_vector(values, run.value.shape());
        backend_of(cpu_device).copy(updated.raw(), run.value.raw(), updated.bytes());
      }
    }
    EXPECT_LT(losses.back(), 0.8 * losses.front());
    return;
  }
  FAIL() << "the page shows no multiply";
}

TEST(ModelDocs, EveryExampleOfSequencesBuilds) {
  const std::string path = WHISKER_SOURCE_DIR "/docs/internals/recurrent.md";
  const std::vector<std::string> blocks = yaml_blocks(read_file(path, 1 << 20, ErrorKind::data));
  EXPECT_EQ(blocks.size(), 1u);
  for (const std::string& block : blocks) {
    const YamlNode root = YamlNode::parse(block, "recurrent.md");
    const Model model =
        build_model(*root.find("model"), {.input = {7, 2}, .batch_axis = 1, .classes = 3});
    EXPECT_EQ(model.output, (Shape{2, 3})) << block;
  }
}

TEST(ModelDocs, MnistHasTheTutorialsParameterCount) {
  const YamlNode root = YamlNode::parse_file(WHISKER_SOURCE_DIR "/configs/mnist.yaml");
  const Model model = build_model(*root.find("model"), {.input = {64, 28, 28, 1}, .classes = 10});
  int64_t elements = 0;
  for (const auto& parameter : model.net->parameters()) elements += parameter->shape().count();
  EXPECT_EQ(elements, 93'322);
}

}  // namespace
}  // namespace whisker
