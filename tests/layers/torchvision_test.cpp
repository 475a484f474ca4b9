// Presets against torchvision's networks: the same weights and images give the same logits, loss,
// gradients and running statistics, element by element. Numbers from
// scripts/make_torchvision_fixtures.py, computed in f64: so is the reference, the others in f32.
#include "core/cpu/cpu_backend.h"
#include "tests/layers/formula_weights.h"
#include "tests/support/devices.h"
#include "tests/support/json_fixture.h"
#include "tests/support/test_data.h"
#include "tests/support/tolerance.h"

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

const JsonValue& fixtures() {
  static const JsonValue values =
      test::json_fixture(WHISKER_SOURCE_DIR "/tests/layers/torchvision_fixtures.json");
  return values;
}

DType widest(Device device) {
  return test::test_dtypes(device)[0];
}

/// Allowed errors as shares of a tensor's largest element. cuDNN may choose Winograd's algorithm,
/// which erred by up to 1.3e-5 on the CPU.
double allowed(Device device) {
  if (widest(device) == DType::f64) return 1e-9;
  return device.kind == DeviceKind::cuda ? 3e-5 : 1e-5;
}

/// The same of a gradient. Those of a batch norm's weights are sums over all rows in which much
/// cancels: in f32 they erred by up to 1.2e-5 with the instructions of one CPU.
double allowed_gradient(Device device, const Parameter& parameter) {
  const bool cancels = parameter.role() == ParameterRole::norm && widest(device) != DType::f64;
  return cancels ? 3e-5 : allowed(device);
}

Tensor images(int64_t side, int64_t batch, Device device) {
  const std::string name = "picture" + std::to_string(side);  // as the fixtures' values were made
  const std::vector<float> values = test::formula(name, batch * side * side * 3);
  std::vector<double> scaled(values.begin(), values.end());
  for (double& value : scaled) value *= 4;
  return from_vector(scaled, {batch, side, side, 3}, {.dtype = widest(device), .device = device});
}

Model preset(const std::string& name, int64_t side, int64_t classes) {
  return build_model(YamlNode::parse(name, "test"),
                     {.input = {2, side, side, 3}, .classes = classes});
}

/// On the CPU by direct convolutions, whatever timing would choose.
class TorchvisionOn : public test::NetworkOn {
 protected:
  void SetUp() override {
    set_cpu_options({.winograd = false, .deterministic = true});
    NetworkOn::SetUp();
  }
  void TearDown() override { set_cpu_options({}); }
};

INSTANTIATE_TEST_SUITE_P(, TorchvisionOn,
                         testing::Values(reference_device, cpu_device, Device{DeviceKind::cuda, 0}),
                         [](const auto& device) { return test::test_name(device.param); });

TEST_P(TorchvisionOn, SqueezenetsImagenetWeightsGiveTheSameLogits) {
  const auto path = test::test_data_dir() / "weights" / "squeezenet1_1_imagenet.safetensors";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is missing";
  const Model model = preset("squeezenet1_1", 100, 1000);
  ParameterArena arena(model.net->parameters(), GetParam(), 1, {.master = widest(GetParam())});
  const LoadReport report = load_weights(SafetensorsFile::open(path), model, arena);
  EXPECT_EQ(report.loaded, 52);
  const NoGrad inference;
  const std::vector<double> logits = model.net->forward(images(100, 2, GetParam())).to_vector();
  std::vector<double> shown;
  for (size_t i = 0; i < logits.size(); i += 20) shown.push_back(logits[i]);
  EXPECT_TRUE(test::close(shown, test::numbers_of(fixtures().at("squeezenet1_1").at("logits")),
                          allowed(GetParam()), 0));
}

// What weight decay may spare: every vector of these networks, and no matrix or filter.
TEST(Torchvision, RolesTellWeightsFromBiasesAndNormalisation) {
  for (const char* name : {"resnet18", "squeezenet1_1"}) {
    for (const auto& parameter : preset(name, 64, 10).net->parameters()) {
      if (parameter->is_buffer()) continue;
      const auto role = parameter->role();
      const bool spared = role == ParameterRole::bias || role == ParameterRole::norm;
      EXPECT_EQ(spared, parameter->shape().rank() == 1) << name << ' ' << parameter->name();
    }
  }
}

/// The script's shown(), but for the largest magnitude, of a parameter's values or gradient.
std::vector<double> shown(const Parameter& parameter, const std::vector<double>& memory) {
  std::vector<float> indices(memory.size());  // below 2^24: exact
  std::iota(indices.begin(), indices.end(), 0.0f);
  const std::vector<float> file_index = from_file_order(parameter, indices);
  std::vector<double> values(memory.size());
  for (size_t i = 0; i < memory.size(); ++i) {
    values[static_cast<size_t>(file_index[i])] = memory[i];
  }
  std::vector<double> result;
  for (uint64_t i = 0; i < 8; ++i) {
    result.push_back(
        values[(stream_of(parameter.name()) % values.size() + 2654435761u * i) % values.size()]);
  }
  const std::vector<float> direction =
      test::formula("direction of " + parameter.name(), static_cast<int64_t>(values.size()));
  result.push_back(std::inner_product(values.begin(), values.end(), direction.begin(), 0.0));
  return result;
}

void expect_shown(const Parameter& parameter, const Tensor& tensor, const JsonValue& expected,
                  double relative) {
  SCOPED_TRACE(parameter.name());
  std::vector<double> want = test::numbers_of(expected.at(parameter.name()));
  std::vector<double> got = shown(parameter, tensor.to_vector());
  ASSERT_EQ(want.size(), 10u);
  ASSERT_TRUE(std::isfinite(want[9]));
  const double largest = want[8];
  // A product of n elements with numbers in [-1/2, 1/2) errs by no more than this, unless
  // errors are of one sign.
  const double terms = std::sqrt(static_cast<double>(tensor.count()));
  EXPECT_NEAR(got[8], want[9], relative * largest * terms) << "in all elements";
  want.resize(8);
  got.resize(8);
  EXPECT_TRUE(test::close(got, want, relative, largest));
}

TEST_P(TorchvisionOn, ResnetsForwardBackwardAndStatisticsAreTheSame) {
  const JsonValue& expected = fixtures().at("resnet18");
  const double relative = allowed(GetParam());
  const Model model = preset("resnet18", 64, 10);
  ParameterArena arena(model.net->parameters(), GetParam(), 1, {.master = widest(GetParam())});
  test::fill_by_formula(*model.net, arena);
  const Tensor x = images(64, 2, GetParam());
  {
    const NoGrad inference;
    const std::vector<double> evaluated = model.net->forward(x).to_vector();
    EXPECT_TRUE(test::close(evaluated, test::numbers_of(expected.at("evaluated")), relative, 0));
  }
  const Tensor logits = model.net->forward(x, {.training = true});
  EXPECT_TRUE(
      test::close(logits.to_vector(), test::numbers_of(expected.at("trained")), relative, 0));
  const Tensor labels = from_vector({3, 7}, {2}, {.dtype = DType::i64, .device = GetParam()});
  const Tensor loss = cross_entropy(logits, labels);
  EXPECT_NEAR(loss.item(), expected.at("loss").as_double(), relative);
  backward(loss);
  arena.commit_buffers();
  for (const auto& parameter : arena.parameters()) {
    if (parameter->is_buffer()) {
      expect_shown(*parameter, parameter->value(), expected.at("buffers"), relative);
    } else {
      expect_shown(*parameter, parameter->gradient(), expected.at("gradients"),
                   allowed_gradient(GetParam(), *parameter));
    }
  }
}

}  // namespace
}  // namespace whisker
