#include "data/loader/image_reader.h"

#include "core/error.h"
#include "tests/support/image_files.h"
#include "tests/support/temporary_folder.h"

#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;

std::string jpeg(const TemporaryFolder& folder, int width) {
  const Buffer bytes = write_jpeg(sample_image(width, 8));
  return folder.write(std::to_string(width) + ".jpg", {bytes.begin(), bytes.end()}).string();
}

// Of the next file: its width, or why there is none.
struct Taken {
  int width = 0;
  std::string error = {};
};

// Files whose widths are asked for in their order.
class Widths {
 public:
  explicit Widths(int workers) : reader_(workers) {}
  int workers() const { return reader_.workers(); }
  void start(const std::string& path) {
    reader_.start(path, [&width = widths_.emplace_back(0)](const Image& image) {
      ASSERT_EQ(width, 0);
      width = image.width;
    });
  }
  Taken take() {
    std::string error = reader_.take();
    return {widths_[taken_++], std::move(error)};
  }

 private:
  std::deque<int> widths_;
  size_t taken_ = 0;
  ImageReader reader_;
};

TEST(ImageReader, WaitsForImagesInTheirOrder) {
  const TemporaryFolder folder;
  const std::string broken = folder.write("broken.jpg", "no image").string();
  std::vector<std::string> paths;
  for (int i = 0; i < 40; ++i) {  // large ones first: later ones are done before them
    paths.push_back(i % 10 == 7 ? broken : jpeg(folder, 10 * (40 - i)));
  }
  const std::string last = jpeg(folder, 5);
  for (const int workers : {1, 2, 7, -1}) {
    Widths reader(workers);
    ASSERT_GE(reader.workers(), 1);
    for (const std::string& path : paths) reader.start(path);
    for (int i = 0; i < 40; ++i) {
      const Taken taken = reader.take();
      if (i % 10 == 7) {
        EXPECT_THAT(taken.error, HasSubstr("no image"));
        EXPECT_EQ(taken.width, 0);
      } else {
        EXPECT_EQ(taken.error, "");
        EXPECT_EQ(taken.width, 10 * (40 - i));
      }
      if (i == 5) reader.start(last);  // goes on while others wait
    }
    EXPECT_EQ(reader.take().width, 5);
  }
}

TEST(ImageReader, EndsWithFilesThatNobodyTakes) {
  const TemporaryFolder folder;
  const std::string path = jpeg(folder, 300);
  Widths reader(3);
  for (int i = 0; i < 50; ++i) reader.start(path);
  EXPECT_EQ(reader.take().width, 300);
}

TEST(ImageReader, NamesAMissingFile) {
  Widths reader(-1);
  reader.start("nowhere/cat.jpg");
  EXPECT_THAT(reader.take().error, HasSubstr("nowhere/cat.jpg"));
}

// What fails besides reading is not the file's fault, whatever it is.
TEST(ImageReader, ThrowsWhatItsUserThrows) {
  const TemporaryFolder folder;
  const std::string path = jpeg(folder, 300);
  for (const int workers : {1, 3}) {
    ImageReader reader(workers);
    int used = 0;
    for (int i = 0; i < 3; ++i) {
      reader.start(path, [i, &used](const Image&) {
        if (i == 1) fail(ErrorKind::data, "no room");
        if (i == 2) used = i;
      });
    }
    EXPECT_EQ(reader.take(), "");
    EXPECT_THROW(reader.take(), Error);
    EXPECT_EQ(reader.take(), "");
    EXPECT_EQ(used, 2);
  }
}

// taskset, SLURM and cpusets leave a process fewer cores than the machine has.
TEST(ImageReader, HasNoMoreThreadsThanCores) {
  const std::jthread bound([] {
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
    size_t core = 0;
    while (!CPU_ISSET(core, &allowed)) ++core;
    CPU_SET(core, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(ImageReader().workers(), 1);
  });
}

}  // namespace
}  // namespace whisker::test
