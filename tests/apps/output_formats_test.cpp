// Which files `classify` and `evaluate` take for their own, and how heat maps are named.
#include "apps/commands/classified_images.h"
#include "apps/commands/evaluated_examples.h"
#include "core/error.h"
#include "core/io/checksum_mark.h"
#include "data/codec/encode_jpeg.h"
#include "train/report/evaluation_report.h"

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

TEST(OutputFormats, AHeatMapIsKnownByItsCommentUnlessItWasEdited) {
  Prediction result;
  EXPECT_EQ(heat_map_jpeg(result, ""), "");
  result.heat_map.reshape(30, 20);
  const std::string own = heat_map_jpeg(result, ", weights of 9 bytes, hash 1f");
  EXPECT_TRUE(is_heat_map(own));
  for (const char* comment : {"", "heat map", "cat face drawn by whisker data generate",
                              "heat map by whisker classify --cam",
                              "heat map by whisker classify --cam, crc32 00000000"}) {
    EXPECT_FALSE(is_heat_map(jpeg_with(comment))) << comment;
  }
  for (size_t size = 0; size < own.size(); ++size) {
    EXPECT_FALSE(is_heat_map(std::string_view(own).substr(0, size))) << size;
  }
  std::string edited = own;
  edited[own.size() / 2] = static_cast<char>(edited[own.size() / 2] + 1);
  EXPECT_FALSE(is_heat_map(edited));
  EXPECT_FALSE(is_heat_map(own + "\n"));
  EXPECT_FALSE(is_heat_map(jpeg_with("") + own));  // not the file's own comment
}

TEST(OutputFormats, ACsvIsKnownByItsColumnsUnlessSomethingWasAdded) {
  const std::string own_embeddings = "path,0,1,2\na.jpg,1,-2e-05,inf\n\"b,\n\"\"c\",1,2,3\n";
  EXPECT_TRUE(is_embeddings_csv(own_embeddings));
  std::string wide = "path";
  for (int i = 0; i < 2048; ++i) wide += "," + std::to_string(i);
  EXPECT_TRUE(is_embeddings_csv(wide + "\n"));
  for (const std::string& other :
       {std::string(), std::string("path\n"), std::string("path,label\na,b\n"),
        std::string("path,0,2\n"), std::string("path,0"), std::string("path,0,1,x\n"),
        wide + ",remark\n", own_embeddings + "d.jpg,1,2,3,seen\n", own_embeddings + "d.jpg,1,2,x\n",
        own_embeddings + "d.jpg,1,2\n", own_embeddings + "d.jpg,1,2,3", own_embeddings + "# seen\n",
        std::string("path,0\r\na,1\r\n"), std::string("\xef\xbb\xbf") + own_embeddings}) {
    EXPECT_FALSE(is_embeddings_csv(other)) << other.substr(0, 80);
  }
  std::vector<std::string> classes = {"a, \"b\"", "c"};
  for (int i = 0; i < 1000; ++i) classes.push_back(fmt::format("class {}", i));
  ValidationExamples one{.of = "rows", .classes = classes, .ranks = 1};
  EXPECT_TRUE(is_predictions_csv(predictions_csv(one, {})));
  one.labels = one.ranked = {0};
  one.scores.assign(classes.size(), 0.5F);
  const std::string own = predictions_csv(one, {"a,b.jpg"});
  EXPECT_TRUE(is_predictions_csv(own));
  EXPECT_FALSE(is_embeddings_csv(own));
  std::string added = own;  // a column behind a header of more than 4 KiB
  added.replace(added.find('\n'), 1, ",remark\n").insert(added.size() - 1, ",blurred");
  for (const std::string& other : {added, std::string(), std::string("path,label\n"),
                                   std::string("path,label,predicted,loss\n"),
                                   std::string("path,label,predicted,loss,remark\n"),
                                   std::string("path,0,1\n"), own + "seen by me\n"}) {
    EXPECT_FALSE(is_predictions_csv(other)) << other.substr(0, 80);
  }
}

TEST(OutputFormats, APageIsKnownByItsChecksum) {
  const std::string begin =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  EXPECT_FALSE(is_evaluation_report(begin));
  const auto page = [&](const std::string& generator) {
    return begin + "<meta name=\"generator\" content=\"" + generator + "\">\n";
  };
  EXPECT_FALSE(is_evaluation_report(page("whisker evaluate --worst")));  // of an earlier version
  std::string own = page(checksum_mark("whisker evaluate --worst"));
  EXPECT_FALSE(is_evaluation_report(own));
  set_checksum(own, "whisker evaluate --worst");
  EXPECT_TRUE(is_evaluation_report(own));
  EXPECT_FALSE(is_evaluation_report(own + "<p>A note.</p>\n"));
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
