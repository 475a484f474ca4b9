#include "data/loader/image_reader.h"

#include "core/error.h"
#include "tests/support/image_files.h"
#include "tests/support/temporary_folder.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;

std::string jpeg(const TemporaryFolder& folder, int width) {
  const Buffer bytes = write_jpeg(sample_image(width, 8));
  return folder.write(std::to_string(width) + ".jpg", {bytes.begin(), bytes.end()}).string();
}

TEST(ImageReader, GivesImagesInTheirOrder) {
  const TemporaryFolder folder;
  const std::string broken = folder.write("broken.jpg", "no image").string();
  std::vector<std::string> paths;
  for (int i = 0; i < 40; ++i) {  // large ones first: later ones are done before them
    paths.push_back(i % 10 == 7 ? broken : jpeg(folder, 10 * (40 - i)));
  }
  const std::string last = jpeg(folder, 5);
  for (const int workers : {1, 2, 7, -1}) {
    ImageReader reader(workers);
    ASSERT_GE(reader.workers(), 1);
    for (const std::string& path : paths) reader.start(path);
    for (int i = 0; i < 40; ++i) {
      const ReadImage read = reader.take();
      if (i % 10 == 7) {
        EXPECT_THAT(read.error, HasSubstr("no image"));
      } else {
        EXPECT_EQ(read.error, "");
        EXPECT_EQ(read.image.width, 10 * (40 - i));
      }
      if (i == 5) reader.start(last);  // goes on while others wait
    }
    EXPECT_EQ(reader.take().image.width, 5);
  }
}

TEST(ImageReader, EndsWithFilesThatNobodyTakes) {
  const TemporaryFolder folder;
  const std::string path = jpeg(folder, 300);
  ImageReader reader(3);
  for (int i = 0; i < 50; ++i) reader.start(path);
  EXPECT_EQ(reader.take().image.width, 300);
}

// Memory for one image or none: the one that is waited for is read all the same.
TEST(ImageReader, GoesOnWhenMemoryIsFull) {
  const TemporaryFolder folder;
  const std::string path = jpeg(folder, 300);
  for (const size_t bytes : {0, 300 * 8 * 3}) {
    ImageReader reader(4, bytes);
    for (int i = 0; i < 40; ++i) reader.start(path);
    for (int i = 0; i < 40; ++i) EXPECT_EQ(reader.take().image.width, 300);
  }
}

TEST(ImageReader, NamesAMissingFile) {
  ImageReader reader;
  reader.start("nowhere/cat.jpg");
  EXPECT_THAT(reader.take().error, HasSubstr("nowhere/cat.jpg"));
}

}  // namespace
}  // namespace whisker::test
