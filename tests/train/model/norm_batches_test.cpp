// Which batches leave a batch norm one value per channel, and which sizes are named instead.
#include "train/model/norm_batches.h"

#include "tests/support/error_of.h"
#include "tests/support/tiny_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;

Model model_of(const char* layers, int64_t side = 8) {
  return build_model(YamlNode::parse(layers, "m"), {.input = {8, side, side, 3}, .classes = 2});
}

constexpr const char* behind_pool =
    "layers: [{conv2d: {filters: 4, kernel: 3}}, global_avg_pool2d, {dense: {units: 4}}, "
    "batch_norm, {dense: {units: classes}}]";
constexpr const char* before_pool =
    "layers: [{conv2d: {filters: 4, kernel: 3}}, batch_norm, global_avg_pool2d, "
    "{dense: {units: classes}}]";

std::string refusal(const Model& model, const RunBatches& batches) {
  return message_of(ErrorKind::usage, [&] { check_norm_batches(model, batches, "images"); });
}

TEST(NormBatches, TheNormThatOneExampleLeavesOneValue) {
  EXPECT_EQ(norm_of_one_value(model_of(behind_pool)), "batch_norm");
  EXPECT_EQ(norm_of_one_value(model_of(before_pool)), "");
  EXPECT_EQ(norm_of_one_value(model_of(before_pool, 3)), "batch_norm");  // 1 x 1 behind the kernel
  EXPECT_EQ(norm_of_one_value(model_of("resnet18", 32)), "layer4.0.downsample.1");
  EXPECT_EQ(norm_of_one_value(model_of("resnet18", 64)), "");
  const Model frozen = model_of(behind_pool);
  frozen.net->freeze_norm();
  EXPECT_EQ(norm_of_one_value(frozen), "");
  EXPECT_FALSE(has_batch_statistics(frozen));
  EXPECT_TRUE(has_batch_statistics(model_of(before_pool)));
}

TEST(NormBatches, ABatchOfOneIsRefusedWithSizesThatWork) {
  const Model model = model_of(behind_pool);
  const std::string last = refusal(model, {.examples = 17, .batch_size = 8});
  EXPECT_THAT(last, HasSubstr("train.batch_size: expected at least 2 values per channel for "
                              "batch_norm 'batch_norm', got 1 in the last batch of an epoch, of 1 "
                              "(17 training images in batches of 8). "
                              "Use train.drop_last=true or train.batch_size=9."));
  EXPECT_THAT(refusal(model, {.examples = 17, .batch_size = 1}),
              HasSubstr("got 1 in a batch of 1. Use train.batch_size=3."));
  EXPECT_EQ(refusal(model, {.examples = 17, .batch_size = 9}), "no error");
  EXPECT_EQ(refusal(model, {.examples = 17, .batch_size = 3}), "no error");
  EXPECT_EQ(refusal(model, {.examples = 17, .batch_size = 8, .drop_last = true}), "no error");
  EXPECT_EQ(refusal(model, {.examples = 16, .batch_size = 8}), "no error");
  EXPECT_EQ(refusal(model_of(before_pool), {.examples = 17, .batch_size = 1}), "no error");
}

TEST(NormBatches, RanksHaveAPartOfEachBatch) {
  const Model model = model_of(behind_pool);
  // 18 = 8 + 8 + 2: two ranks have one row of the last batch each, and three ranks of 8 two or
  // more.
  EXPECT_EQ(refusal(model, {.examples = 18, .batch_size = 8}), "no error");
  EXPECT_THAT(refusal(model, {.examples = 18, .batch_size = 8, .world = 2}),
              HasSubstr("divided among 2 ranks. Use train.drop_last=true or train.batch_size=9 or "
                        "train.sync_batch_norm=true."));
  EXPECT_EQ(refusal(model, {.examples = 18, .batch_size = 8, .world = 2, .sync_norms = true}),
            "no error");
  EXPECT_THAT(refusal(model, {.examples = 16, .batch_size = 4, .world = 4}),
              HasSubstr("a batch of 4"));
}

TEST(NormBatches, AutoTakesOneThatWorks) {
  const Model model = model_of(behind_pool);
  EXPECT_EQ(accepted_batch_size(model, {.examples = 17, .batch_size = 16}), 15);
  EXPECT_EQ(accepted_batch_size(model, {.examples = 17, .batch_size = 17}), 17);
  EXPECT_EQ(accepted_batch_size(model_of(before_pool), {.examples = 17, .batch_size = 16}), 16);
}

TEST(NormBatches, ARunIsRefusedBeforeItBegins) {
  const StripeFolder data(2, 8, 2);
  const std::string layers =
      "model.layers=[{conv2d: {filters: 4, kernel: 3}}, global_avg_pool2d, {dense: {units: 4}}, "
      "batch_norm]";
  const auto error = [&](const char* size) {
    return message_of(ErrorKind::usage, [&] { const Experiment run(data.config({layers, size})); });
  };
  EXPECT_THAT(error("train.batch_size=5"),
              HasSubstr("train.drop_last=true or train.batch_size=6."));
  EXPECT_EQ(error("train.batch_size=6"), "no error");
}

}  // namespace
}  // namespace whisker::test
