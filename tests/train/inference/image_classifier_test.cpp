// What was trained classifies files by itself: classes, preprocessing and network are in the file.
#include "train/inference/image_classifier.h"

#include "core/io/file.h"
#include "data/codec/decode.h"
#include "data/images/image_folder.h"
#include "data/loader/image_reader.h"
#include "tests/support/devices.h"
#include "tests/support/error_of.h"
#include "tests/support/image_files.h"
#include "tests/support/next_inputs.h"
#include "tests/support/tiny_training.h"
#include "train/inference/class_activation.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

// A white image with a map over it, in the extents of the image.
std::vector<int> heated(const ActivationMap& map, const Preprocess& preprocess, int height,
                        int width, bool along_rows) {
  Image image;
  image.reshape(height, width);
  std::ranges::fill(image.rgb, uint8_t{255});
  const Image result = with_heat(image, map, preprocess);
  EXPECT_EQ(result.height, height);
  EXPECT_EQ(result.width, width);
  std::vector<int> red;
  for (int i = 0; i < (along_rows ? height : width); ++i) {
    red.push_back(along_rows ? result.row(i)[3 * (width / 2)] : result.row(height / 2)[3 * i]);
  }
  return red;
}

TEST(HeatMap, LiesOverThePartOfTheImageThatTheNetworkSees) {
  const ActivationMap halves{.height = 1, .width = 2, .values = {0, 1}};
  const std::vector<int> cropped = heated(halves, {.size = {20, 20}}, 60, 120, false);
  EXPECT_EQ(cropped[0], 76);  // cut off: dark
  EXPECT_EQ(cropped[29], 76);
  EXPECT_EQ(cropped[30], 165);  // seen, of value 0
  EXPECT_EQ(cropped[89], 253);  // of value 1
  EXPECT_EQ(cropped[90], 76);
  EXPECT_EQ(cropped[119], 76);
  const std::vector<int> squashed =
      heated(halves, {.size = {20, 20}, .resize_mode = ResizeMode::squash}, 60, 120, false);
  EXPECT_EQ(squashed[0], 165);
  EXPECT_EQ(squashed[119], 253);
  // Bars fill the input above 0.25 and below 0.75: the image itself is in between.
  const ActivationMap quarters{.height = 4, .width = 1, .values = {1, 0, 0, 1}};
  const std::vector<int> boxed =
      heated(quarters, {.size = {20, 20}, .resize_mode = ResizeMode::letterbox}, 60, 120, true);
  EXPECT_EQ(boxed[29], 165);
  EXPECT_EQ(boxed[30], 165);
  EXPECT_NEAR(boxed[0], 165 + (253 - 165) / 2, 25);
  EXPECT_NEAR(boxed[0], boxed[59], 1);
}

// Weights trained on the CPU, and files of which the second is no image.
class ClassifyOn : public NetworkOn {
 protected:
  void SetUp() override {
    NetworkOn::SetUp();
    if (IsSkipped()) return;
    result_ = run_.train();
    const ImageFolder files = open_image_folder(run_.experiment.config.data.val);
    for (const ImageFile& file : files.files) paths_.push_back((files.root / file.path).string());
    broken_ = data_.folder().write("broken.jpg", "no image").string();
    paths_.insert(paths_.begin() + 1, broken_);
  }
  Network network() const { return Network::load(run_.folder.best(), GetParam()); }
  NextInputs one_by_one() const {
    return [next = inputs_of(paths_)](size_t) mutable { return next(1); };
  }
  static std::vector<Prediction> classified(const Network& network, const NextInputs& next,
                                            const ImageClassifierOptions& options) {
    std::vector<Prediction> all;
    classify_images(network, next, options, [&](const Prediction& one) { all.push_back(one); });
    return all;
  }

  const StripeFolder data_;
  TestRun run_{data_.config({"train.epochs=25"})};
  TrainResult result_;
  std::vector<std::string> paths_;
  std::string broken_;
};
INSTANTIATE_TEST_SUITE_P(, ClassifyOn, testing::ValuesIn(network_devices),
                         [](const auto& device) { return test_name(device.param); });

TEST_P(ClassifyOn, WhatTheWeightsAloneSay) {
  EXPECT_GE(result_.best_metric, 0.9);
  const Network network = this->network();
  EXPECT_EQ(network.classes(), (std::vector<std::string>{"c0", "c1"}));
  int64_t right = 0;
  size_t at = 0;
  for (const Prediction& one : classified(network, inputs_of(paths_), {.batch_size = 4})) {
    EXPECT_EQ(one.name, paths_.at(at++));
    if (one.name == broken_) {
      EXPECT_THAT(one.error, HasSubstr("no image"));
      EXPECT_TRUE(one.probabilities.empty());
      continue;
    }
    EXPECT_EQ(one.error, "");
    EXPECT_NEAR(one.probabilities[0] + one.probabilities[1], 1, 1e-5);
    right += (one.probabilities[1] > 0.5) == (one.name.find("/c1/") != std::string::npos);
  }
  EXPECT_EQ(at, paths_.size());
  EXPECT_EQ(static_cast<double>(right) / 10, result_.best_metric);
}

TEST_P(ClassifyOn, ImagesInMemorySayWhatTheirFilesDo) {
  std::erase(paths_, broken_);
  const Network network = this->network();
  std::vector<Image> images;
  for (const std::string& path : paths_) {
    Decoded decoded;
    const std::string content = read_file(path, max_image_bytes, ErrorKind::data);
    decode(bytes_of(content), {.rules = network.preprocess().rules}, decoded);
    images.push_back(decoded.image);
  }
  const Tensor scores = classify_images(network, images);
  EXPECT_EQ(scores.device(), cpu_device);
  std::vector<float> from_files;
  for (const Prediction& one : classified(network, inputs_of(paths_), {})) {
    from_files.insert(from_files.end(), one.probabilities.begin(), one.probabilities.end());
  }
  EXPECT_THAT(scores.data<const float>(), Pointwise(FloatNear(1e-4f), from_files));
  EXPECT_THAT(error_of([&] { classify_images(network, std::span<const Image>()); }),
              HasSubstr("expected an image or more"));
}

// All that is asked for of an image is the same in other batches, read ahead or not, with inputs
// that come one by one, and on the CPU.
TEST_P(ClassifyOn, BatchesSayWhatSingleImagesDo) {
  ImageClassifierOptions options{
      .batch_size = 1, .flip = true, .embedding = true, .heat_map = true};
  const Network on_cpu = Network::load(run_.folder.best(), cpu_device);
  const std::vector<Prediction> alone = classified(on_cpu, inputs_of(paths_), options);
  ASSERT_EQ(alone.size(), paths_.size());
  options.batch_size = 4;
  const Network network = this->network();
  for (const bool read_ahead : {true, false}) {
    options.read_ahead = read_ahead;
    for (const NextInputs& next : {inputs_of(paths_), one_by_one()}) {
      const std::vector<Prediction> batched = classified(network, next, options);
      ASSERT_EQ(batched.size(), paths_.size());
      for (size_t i = 0; i < batched.size(); ++i) {
        const Prediction &one = batched[i], &want = alone[i];
        EXPECT_EQ(one.name, paths_[i]);
        EXPECT_EQ(one.error.empty(), one.name != broken_);
        EXPECT_THAT(one.probabilities, Pointwise(FloatNear(1e-4f), want.probabilities)) << one.name;
        EXPECT_THAT(one.embedding, Pointwise(FloatNear(1e-3f), want.embedding)) << one.name;
        EXPECT_EQ(one.embedding.empty(), one.name == broken_);
        ASSERT_EQ(one.heat_map.rgb.size(), want.heat_map.rgb.size()) << one.name;
        EXPECT_EQ(one.heat_map.rgb.empty(), one.name == broken_);
        int most = 0;
        for (size_t b = 0; b < want.heat_map.rgb.size(); ++b) {
          most = std::max(most, std::abs(one.heat_map.rgb[b] - want.heat_map.rgb[b]));
        }
        EXPECT_LE(most, 1) << one.name;
      }
    }
  }
}

// Nothing is reported of a batch whose outputs are no numbers, whatever is asked of it.
TEST_P(ClassifyOn, OutputsThatAreNoNumbersAreOneError) {
  const Network network = this->network();
  overflow(network);
  for (const ImageClassifierOptions& options :
       {ImageClassifierOptions{.batch_size = 4},
        ImageClassifierOptions{
            .batch_size = 1, .flip = true, .embedding = true, .heat_map = true}}) {
    int reported = 0;
    EXPECT_THAT(message_of(ErrorKind::checkpoint,
                           [&] {
                             classify_images(network, inputs_of(paths_), options,
                                             [&](const Prediction&) { ++reported; });
                           }),
                HasSubstr(fmt::format("expected outputs that are numbers, got NaN or Inf for '{}",
                                      paths_[0].substr(0, 40))));
    EXPECT_EQ(reported, 0);
  }
}

// Of a JPEG file only the part that the network sees is decoded; a BMP file is read whole.
TEST_P(ClassifyOn, JpegFilesSayWhatTheirPixelsDo) {
  std::vector<std::string> jpegs, bitmaps;
  for (int i = 0; i < 9; ++i) {
    const auto [width, height] = i % 2 == 0 ? std::pair{310 + i, 120} : std::pair{90, 200 + i};
    const Buffer jpeg = write_jpeg(sample_image(width, height), {.orientation = i});
    const Buffer bitmap = write_bmp(decode(jpeg));
    const auto write = [&](const Buffer& bytes, const char* extension) {
      return data_.folder()
          .write(std::to_string(i) + extension, {bytes.begin(), bytes.end()})
          .string();
    };
    jpegs.push_back(write(jpeg, ".jpg"));
    bitmaps.push_back(write(bitmap, ".bmp"));
  }
  const Network network = this->network();
  const ImageClassifierOptions options{.batch_size = 4, .flip = true, .heat_map = true};
  const std::vector<Prediction> from_jpegs = classified(network, inputs_of(jpegs), options);
  const std::vector<Prediction> from_bitmaps = classified(network, inputs_of(bitmaps), options);
  ASSERT_EQ(from_jpegs.size(), jpegs.size());
  ASSERT_EQ(from_bitmaps.size(), jpegs.size());
  for (size_t i = 0; i < jpegs.size(); ++i) {
    EXPECT_EQ(from_jpegs[i].error, "");
    EXPECT_FALSE(from_jpegs[i].heat_map.rgb.empty());
    EXPECT_EQ(from_jpegs[i].probabilities, from_bitmaps[i].probabilities) << i;
    EXPECT_EQ(from_jpegs[i].heat_map.rgb, from_bitmaps[i].heat_map.rgb) << i;
  }
  EXPECT_NE(from_jpegs[0].probabilities, from_jpegs[1].probabilities);
}

TEST_P(ClassifyOn, FailuresCostNoResultThatIsThere) {
  const Network network = this->network();
  int64_t given = 0, reported = 0;
  const int64_t ahead = 2 * (4 + ImageReader().workers());
  const auto failing = [&](size_t) {
    if (given++ >= ahead) fail(ErrorKind::disk, "input is gone");
    return std::vector<std::string>{paths_[0]};
  };
  EXPECT_THROW(classify_images(network, failing, {.batch_size = 4, .read_ahead = true},
                               [&](const Prediction&) { ++reported; }),
               Error);
  EXPECT_EQ(reported, 4);
  // Nothing follows a result that could not be reported.
  reported = 0;
  const auto full_disk = [&](const Prediction&) {
    if (++reported == 2) fail(ErrorKind::disk, "no space");
  };
  EXPECT_THROW(
      classify_images(network, one_by_one(), {.batch_size = 4, .read_ahead = true}, full_disk),
      Error);
  EXPECT_EQ(reported, 2);
}

}  // namespace
}  // namespace whisker::test
