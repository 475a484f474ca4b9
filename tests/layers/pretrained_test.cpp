// The table of pretrained weights: what a download and its later recognition rely on.
#include "layers/weights/pretrained.h"

#include "layers/builder/presets.h"
#include "layers/weights/preset_name.h"

#include <algorithm>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Pretrained, FilesAreThoseOfTheirPresetsByName) {
  std::set<std::string> files;
  for (const PretrainedWeights& weights : pretrained_weights()) {
    ASSERT_TRUE(find_preset(weights.preset)) << weights.preset;
    EXPECT_EQ(find_preset(weights.preset)->name, weights.preset) << "an alias";
    // What `classify` and others take the file for.
    const auto name = preset_name_of_file(weights.file);
    ASSERT_TRUE(name && !name->presets.empty()) << weights.file;
    EXPECT_EQ(name->presets[0], weights.preset) << weights.file;
    EXPECT_EQ(name->tag.unread, "") << weights.file;
    EXPECT_TRUE(files.insert(weights.file).second) << weights.file << " twice";
    EXPECT_THAT(weights.url, StartsWith("https://"));
    EXPECT_THAT(weights.trained_on, HasSubstr("ImageNet-1k")) << weights.preset;
    EXPECT_FALSE(weights.tag.empty()) << weights.preset;
    if (weights.top1) {
      EXPECT_GT(*weights.top1, 50) << weights.preset;
      EXPECT_LT(*weights.top1, 90) << weights.preset;
    }
  }
  EXPECT_GT(files.size(), 60U);
}

TEST(Pretrained, EachFileCanBeChecked) {
  for (const PretrainedWeights& weights : pretrained_weights()) {
    const bool hex = weights.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
    EXPECT_TRUE(hex) << weights.preset;
    if (weights.sha256.empty()) {  // Hugging Face states it
      EXPECT_THAT(weights.url, StartsWith("https://huggingface.co/timm/")) << weights.preset;
      continue;
    }
    EXPECT_TRUE(weights.sha256.size() == 8 || weights.sha256.size() == 64) << weights.preset;
    EXPECT_THAT(weights.url, HasSubstr("-" + weights.sha256.substr(0, 8) + ".pth"));
  }
}

TEST(Pretrained, AreFoundByPresetAliasAndTheLibrarysName) {
  ASSERT_TRUE(find_pretrained("mobilenet_v2"));
  EXPECT_EQ(find_pretrained("mobilenet_v2")->file, "mobilenet_v2-b0353104.pth");
  EXPECT_EQ(find_pretrained("mobilenet_v2")->top1, 71.878);
  EXPECT_EQ(find_pretrained("vit_small_patch16_224"), find_pretrained("vit_s_16"));
  const PretrainedWeights* timm = find_pretrained("timm/resnet18");
  ASSERT_TRUE(timm);
  EXPECT_EQ(find_pretrained("resnet18." + timm->tag), timm);
  EXPECT_EQ(find_pretrained("timm/resnet18." + timm->tag), timm);
  EXPECT_NE(find_pretrained("resnet18"), timm);
  EXPECT_FALSE(find_pretrained("resnet18.another_in1k"));  // other weights, which are not known
  EXPECT_FALSE(find_pretrained("small_resnet"));
  EXPECT_FALSE(find_pretrained(""));
}

}  // namespace
}  // namespace whisker
