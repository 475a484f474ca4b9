// Every YAML block of docs/models.md builds, and so do the networks that configurations describe.
#include "core/io/file.h"
#include "layers/model_builder.h"

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
  const std::string path = WHISKER_SOURCE_DIR "/docs/models.md";
  const std::vector<std::string> blocks = yaml_blocks(read_file(path, 1 << 20, ErrorKind::data));
  EXPECT_EQ(blocks.size(), 5u);
  for (const std::string& block : blocks) {
    const YamlNode root = YamlNode::parse(block, "models.md");
    const Model model = build_model(*root.find("model"), {.input = {2, 64, 64, 3}, .classes = 3});
    EXPECT_EQ(model.output, (Shape{2, 3})) << block;
  }
}

TEST(ModelDocs, EveryExampleOfSequencesBuilds) {
  const std::string path = WHISKER_SOURCE_DIR "/docs/recurrent.md";
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
