// Presets against torchvision's networks: the same weights and pictures give the same logits, loss,
// gradients and running statistics. Numbers from scripts/make_torchvision_fixtures.py.
#include "core/io/file.h"
#include "core/io/json.h"
#include "core/philox.h"
#include "layers/layers.h"
#include "layers/weights.h"
#include "tests/support/devices.h"
#include "tests/support/test_data.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

const JsonValue& fixtures() {
  static const JsonValue values =
      JsonValue::parse(read_file(WHISKER_SOURCE_DIR "/tests/layers/torchvision_fixtures.json",
                                 1 << 20, ErrorKind::data),
                       {.name = "torchvision_fixtures.json"});
  return values;
}

// The script's formula().
std::vector<float> formula(const std::string& name, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  const uint64_t offset = stream_of(name) & 0xffffffffu;
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t word = ((i + 1) * 2654435761u + offset) & 0xffffffffu;
    word = ((word ^ (word >> 15)) * 2246822519u) & 0xffffffffu;
    values[i] = static_cast<float>(static_cast<double>(word) / 0x1p32 - 0.5);
  }
  return values;
}

Tensor pictures(int64_t side, int64_t batch, Device device) {
  const std::vector<float> values =
      formula("picture" + std::to_string(side), batch * side * side * 3);
  std::vector<double> scaled(values.begin(), values.end());
  for (double& value : scaled) value *= 4;
  return from_vector(scaled, {batch, side, side, 3}, {.device = device});
}

Model preset(const std::string& name, int64_t side, int64_t classes) {
  return build_model(YamlNode::parse(name, "test"),
                     {.input = {2, side, side, 3}, .classes = classes});
}

void expect_close(const std::vector<double>& ours, const JsonValue& theirs, size_t every,
                  double tolerance) {
  ASSERT_EQ((ours.size() + every - 1) / every, theirs.items().size());
  for (size_t i = 0; i < theirs.items().size(); ++i) {
    EXPECT_NEAR(ours[i * every], theirs.items()[i].as_double(), tolerance) << i;
  }
}

using TorchvisionOn = test::NetworkOn;
INSTANTIATE_TEST_SUITE_P(, TorchvisionOn, testing::ValuesIn(test::network_devices),
                         [](const auto& device) { return test::test_name(device.param); });

TEST_P(TorchvisionOn, SqueezenetsImagenetWeightsGiveTheSameLogits) {
  const auto path = test::test_data_dir() / "weights" / "squeezenet1_1_imagenet.safetensors";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is missing";
  const Model model = preset("squeezenet1_1", 100, 1000);
  ParameterArena arena(model.net->parameters(), GetParam(), 1);
  const LoadReport report = load_weights(SafetensorsFile::open(path), model, arena);
  EXPECT_EQ(report.loaded, 52);
  const NoGrad inference;
  const std::vector<double> logits = model.net->forward(pictures(100, 2, GetParam())).to_vector();
  expect_close(logits, fixtures().at("squeezenet1_1").at("logits"), 20, 1e-3);
}

// Kaiming-like weights, norms around one, as the script sets them; values in file order.
void fill(const Model& model, ParameterArena& arena) {
  for (const auto& parameter : model.net->parameters()) {
    std::vector<float> values = formula(parameter->name(), parameter->shape().count());
    const Shape& shape = parameter->shape();
    const bool is_scale = shape.rank() == 1 && (parameter->name().ends_with("weight") ||
                                                parameter->name().ends_with("running_var"));
    const auto fan_in = static_cast<double>(shape.count() / shape[0]);
    for (float& value : values) {
      if (shape.rank() > 1) value *= static_cast<float>(std::sqrt(12 / fan_in));
      if (is_scale) value += 1;
    }
    arena.write(*parameter, from_file_order(*parameter, values));
  }
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

TEST_P(TorchvisionOn, ResnetsForwardBackwardAndStatisticsAreTheSame) {
  const JsonValue& expected = fixtures().at("resnet18");
  const Model model = preset("resnet18", 64, 10);
  ParameterArena arena(model.net->parameters(), GetParam(), 1);
  fill(model, arena);
  const Tensor x = pictures(64, 2, GetParam());
  {
    const NoGrad inference;
    const std::vector<double> evaluated = model.net->forward(x).to_vector();
    expect_close(evaluated, expected.at("evaluated"), 1, 2e-3 * norm(evaluated));
  }
  const Tensor logits = model.net->forward(x, {.training = true});
  expect_close(logits.to_vector(), expected.at("trained"), 1, 1e-3);
  const Tensor labels = from_vector({3, 7}, {2}, {.dtype = DType::i64, .device = GetParam()});
  const Tensor loss = cross_entropy(logits, labels);
  EXPECT_NEAR(loss.item(), expected.at("loss").as_double(), 1e-3);
  backward(loss);
  arena.commit_buffers();
  for (const auto& parameter : arena.parameters()) {
    const bool buffer = parameter->is_buffer();
    const double reference =
        expected.at(buffer ? "buffer_norms" : "gradient_norms").at(parameter->name()).as_double();
    const Tensor& ours = buffer ? parameter->value() : parameter->gradient();
    EXPECT_NEAR(norm(ours.to_vector()), reference, 0.01 * reference) << parameter->name();
  }
}

}  // namespace
}  // namespace whisker
