// Which files `classify` and `evaluate` take for their own, and how heat maps are named.
#include "apps/commands/classified_images.h"
#include "apps/commands/evaluated_images.h"
#include "data/codec/encode_jpeg.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

std::string jpeg_with(const std::string& comment) {
  Image image;
  image.reshape(4, 4);
  const std::vector<uint8_t> bytes = encode_jpeg(image, {.comment = comment});
  return {bytes.begin(), bytes.end()};
}

TEST(OutputFormats, AHeatMapIsKnownByItsComment) {
  Prediction result;
  EXPECT_EQ(heat_map_jpeg(result), "");
  result.heat_map.reshape(30, 20);
  const std::string own = heat_map_jpeg(result);
  EXPECT_TRUE(is_heat_map(own));
  EXPECT_TRUE(is_heat_map(std::string_view(own).substr(0, 100)));
  for (const char* comment : {"", "heat map", "cat face drawn by whisker data generate",
                              "heat map by whisker classify --cam, edited"}) {
    EXPECT_FALSE(is_heat_map(jpeg_with(comment))) << comment;
  }
  for (size_t size = 0; size < 50; ++size) is_heat_map(std::string_view(own).substr(0, size));
  EXPECT_FALSE(is_heat_map("heat map by whisker classify --cam"));
  EXPECT_FALSE(is_heat_map("\xff\xd8\xff\xfe\x00\x24heat map by"));  // cut within the comment
  EXPECT_FALSE(is_heat_map(jpeg_with("") + own));                    // not the file's own comment
}

TEST(OutputFormats, CsvFilesAreKnownByTheirColumns) {
  EXPECT_TRUE(is_embeddings_csv("path,0,1,2\na.jpg,1,2,3\n"));
  std::string wide = "path";
  for (int i = 0; i < 2048; ++i) wide += "," + std::to_string(i);
  EXPECT_TRUE(is_embeddings_csv(wide.substr(0, 4096)));
  for (const char* other :
       {"", "path\n", "path,label\na,b\n", "path,0,2\n", "path,0", "path,0,1,x\n"}) {
    EXPECT_FALSE(is_embeddings_csv(other)) << other;
  }
  const std::vector<std::string> classes = {"a, \"b\"", "c"};
  const std::string own = predictions_csv({}, classes);
  EXPECT_TRUE(is_predictions_csv(own));
  EXPECT_FALSE(is_embeddings_csv(own));
  for (const char* other : {"", "path,label\n", "path,label,predicted,loss\n",
                            "path,label,predicted,loss,remark\n", "path,0,1\n"}) {
    EXPECT_FALSE(is_predictions_csv(other)) << other;
  }
  EXPECT_FALSE(
      is_worst_page("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"));
}

TEST(OutputFormats, HeatMapsKeepTheFoldersOfTheInputs) {
  const std::vector<std::string> folders = {"", "photos", "photos/cat", "/abs/x/", "."};
  const auto name = [&](const char* image, const char* class_name = "tabby") {
    return heat_map_name(image, folders, class_name, 0.93124f).string();
  };
  EXPECT_EQ(name("photos/dog/0.jpg"), "dog/0_tabby_0.9312");
  EXPECT_EQ(name("photos/cat/0.jpg"), "0_tabby_0.9312");  // the folder named last is the nearest
  EXPECT_EQ(name("/abs/x/y/0.b.jpg"), "y/0.b_tabby_0.9312");
  EXPECT_EQ(name("./z/0.jpg"), "z/0_tabby_0.9312");
  EXPECT_EQ(heat_map_name("../up/./0.jpg", {}, "c", 1), "up/0_c_1.0000");
  EXPECT_EQ(heat_map_name("/root/0", {}, "c", 1), "root/0_c_1.0000");
  EXPECT_EQ(name("0.jpg", "a/b\n"), "0_a_b__0.9312");
  std::string long_name;
  for (int i = 0; i < 200; ++i) long_name += "\xc3\xa4";
  const std::string cut = name((long_name + ".jpg").c_str(), long_name.c_str());
  EXPECT_EQ(cut, long_name.substr(0, 150) + "_" + long_name.substr(0, 80) + "_0.9312");
}

}  // namespace
}  // namespace whisker
