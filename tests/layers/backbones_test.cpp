// The presets of torchvision's and timm's networks against theirs: names and shapes of all tensors,
// and f32 logits of photographs with weights and statistics from a formula. Numbers from
// scripts/make_backbone_logits.py, computed in f64.
#include "core/cpu/cpu_backend.h"
#include "data/codec/decode.h"
#include "tests/layers/formula_weights.h"
#include "tests/support/json_fixture.h"
#include "tests/support/test_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

constexpr int64_t classes = 3;

const std::vector<JsonValue>& networks() {
  static const JsonValue file =
      json_fixture(WHISKER_SOURCE_DIR "/tests/layers/backbone_logits.json");
  static const std::vector<JsonValue> rows(file.at("networks").items().begin(),
                                           file.at("networks").items().end());
  return rows;
}

std::string name_of_row(const testing::TestParamInfo<size_t>& row) {
  const JsonValue& network = networks()[row.param];
  return fmt::format("{}_{}", network.at("name").as_string(), network.at("side").as_int());
}

/// EfficientNet-B3 is settings of B0.
Model network(const std::string& name, int64_t side) {
  const std::string section =
      name == "efficientnet_b3" ? "{preset: efficientnet_b0, width: 1.2, depth: 1.4}" : name;
  return build_model(YamlNode::parse(section, "test"),
                     {.input = {1, side, side, 3}, .classes = classes});
}

/// The script's photographs().
std::vector<double> photographs(int64_t side, int64_t count, int64_t& sum) {
  std::vector<double> values;
  const std::pair<const char*, const char*> small{"hymenoptera/val/ants", "hymenoptera/val/bees"},
      large{"cats_dogs_original/cat", "cats_dogs_original/dog"};
  const auto& [first, second] = side < 100 ? small : large;
  for (const char* folder : {first, second}) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(test_data_dir() / folder)) {
      if (entry.path().extension() == ".jpg") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    int64_t taken = 0;
    for (auto path = paths.begin(); path != paths.end() && taken < count / 2; ++path) {
      const Image image = decode(read_bytes(*path));
      if (std::min(image.width, image.height) < side) continue;
      ++taken;
      const int64_t left = (image.width - side) / 2, top = (image.height - side) / 2;
      for (int64_t y = top; y < top + side; ++y) {
        const uint8_t* const row = image.row(static_cast<int>(y)) + 3 * left;
        for (int64_t x = 0; x < 3 * side; ++x) {
          values.push_back(row[x] / 64.0 - 2);
          sum += row[x];
        }
      }
    }
  }
  return values;
}

class Backbones : public testing::TestWithParam<size_t> {};

INSTANTIATE_TEST_SUITE_P(, Backbones, testing::Range(size_t{0}, networks().size()), name_of_row);

// Under the same names, files of the one load strictly into the other.
TEST_P(Backbones, HaveTheNamesAndShapesOfTheirWeightsFiles) {
  const JsonValue& want = networks()[GetParam()];
  // A file has the grid of 224 pixels, whatever the image.
  const Model model = network(want.at("name").as_string(), want.at("side").as_int());
  std::vector<std::string> lines;
  for (const auto& parameter : model.net->parameters()) {
    const std::string& name = parameter->name();
    lines.push_back(fmt::format("{} {}", name, fmt::join(file_shape(*parameter).extents(), " ")));
    const size_t at = name.find(".running_mean");
    if (at != name.npos) lines.push_back(name.substr(0, at) + ".num_batches_tracked ");
  }
  std::sort(lines.begin(), lines.end());
  const std::string hash =
      fmt::format("{:016x}", stream_of(fmt::format("{}", fmt::join(lines, "\n"))));
  EXPECT_EQ(hash, want.at("names").as_string()) << fmt::format("{}", fmt::join(lines, "\n"));
}

TEST_P(Backbones, GiveTheLogitsOfPhotographs) {
  for (const char* folder : {"hymenoptera", "cats_dogs_original"}) {
    const auto path = test_data_dir() / folder;
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is missing";
  }
  const JsonValue& want = networks()[GetParam()];
  const std::vector<double> logits = numbers_of(want.at("logits"));
  const int64_t side = want.at("side").as_int();
  const auto count = static_cast<int64_t>(logits.size()) / classes;
  int64_t sum = 0;
  const std::vector<double> values = photographs(side, count, sum);
  ASSERT_EQ(sum, want.at("pixels").as_int()) << "the photographs are decoded alike";

  const Model model = network(want.at("name").as_string(), side);
  ParameterArena arena(model.net->parameters(), cpu_device, {});
  fill_by_formula(*model.net, arena, want.at("gain").as_double());
  set_cpu_options({.winograd = false, .deterministic = true});
  const NoGrad inference;
  const std::vector<double> got =
      model.net->forward(from_vector(values, {count, side, side, 3})).to_vector();
  set_cpu_options({});
  ASSERT_EQ(got.size(), logits.size());
  double largest = 1;
  for (const double value : logits) largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], logits[i], 1e-4 * largest) << i;
}

// Weights of 224 pixels serve larger and smaller images, and images that are not square.
TEST(PositionEmbeddings, AreResizedAsTimmResizesThem) {
  const JsonValue file = json_fixture(WHISKER_SOURCE_DIR "/tests/layers/backbone_logits.json");
  const auto pair = [](const JsonValue& list) {
    return Pair{list.items()[0].as_int(), list.items()[1].as_int()};
  };
  for (const JsonValue& row : file.at("positions").items()) {
    const Pair grid = pair(row.at("grid")), image = pair(row.at("image"));
    PositionEmbedding layer({.channels = 1, .grid = grid, .image = image, .tokens = 1});
    ParameterArena arena(layer.parameters(), cpu_device, {});
    arena.write(*layer.parameters()[0], formula("positions", 1 + grid.h * grid.w));
    const Shape tokens{1, 1, 1 + image.h * image.w, 1};
    const std::vector<double> got = layer(zeros(tokens)).to_vector();
    const std::vector<double> want = numbers_of(row.at("values"));
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], 1e-6) << layer.describe() << " at " << i;
    }
  }
}

}  // namespace
}  // namespace whisker::test
