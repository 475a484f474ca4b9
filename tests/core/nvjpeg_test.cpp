// How nvJPEG is found, started and called, with a library of our own in its place.
#include "core/nvidia/nvjpeg.h"

#include "core/error.h"
#include "tests/support/error_of.h"

#include <cstdlib>
#include <vector>

#include <dlfcn.h>
#include <gmock/gmock.h>

namespace whisker {
namespace {

using testing::HasSubstr;

const std::string fake = WHISKER_FAKE_NVJPEG_LIBRARY;

class NvjpegTest : public testing::Test {
 protected:
  void SetUp() override {
    behave("");
    library_ = dlopen(fake.c_str(), RTLD_NOW);  // so that it counts on after the test's own is gone
    ASSERT_TRUE(library_) << dlerror();
  }
  void TearDown() override {
    EXPECT_EQ(alive(), 0);
    dlclose(library_);
  }
  static void behave(const char* letters) { setenv("WHISKER_FAKE_NVJPEG", letters, 1); }
  // Handles, states and streams that the library made and was not given back.
  int alive() const { return reinterpret_cast<int (*)()>(dlsym(library_, "fake_nvjpeg_alive"))(); }
  // Batch, height, width.
  std::vector<int> capacity() const {
    auto* const of = reinterpret_cast<int (*)(int)>(dlsym(library_, "fake_nvjpeg_capacity"));
    return {of(0), of(1), of(2)};
  }

 private:
  void* library_ = nullptr;
};

std::vector<uint8_t> file_of(char first, size_t size) {
  std::vector<uint8_t> file(size, uint8_t{7});
  if (size > 0) file[0] = static_cast<uint8_t>(first);
  return file;
}

TEST_F(NvjpegTest, TheFirstLibraryThatIsThereIsTaken) {
  const std::vector<std::string> names = {"libno_such_nvjpeg.so.13", fake};
  EXPECT_EQ(Nvjpeg(names).version(), "13.7");
}

TEST_F(NvjpegTest, SaysWhatIsMissing) {
  const std::vector<std::string> absent = {"libno_such_nvjpeg.so.13", "libno_such_nvjpeg.so.12"};
  const std::string text = test::message_of(ErrorKind::device, [&] { Nvjpeg library(absent); });
  EXPECT_THAT(text, HasSubstr("libno_such_nvjpeg.so.13"));
  EXPECT_THAT(text, HasSubstr("libno_such_nvjpeg.so.12"));
  EXPECT_THAT(text, HasSubstr("LD_LIBRARY_PATH"));
  const std::vector<std::string> other = {"libdl.so.2"};
  EXPECT_THAT(test::message_of(ErrorKind::device, [&] { Nvjpeg library(other); }),
              HasSubstr("lacks nvjpegGetProperty"));
}

TEST_F(NvjpegTest, TakesTheEngineElseTheMultiprocessors) {
  const std::vector<std::string> names = {fake};
  EXPECT_TRUE(Nvjpeg(names).hardware());
  behave("f");  // of a version that does not know the flag
  EXPECT_TRUE(Nvjpeg(names).hardware());
  behave("e");
  EXPECT_FALSE(Nvjpeg(names).hardware());
  behave("s");
  EXPECT_THAT(test::message_of(ErrorKind::device, [&] { Nvjpeg library(names); }),
              HasSubstr("nvJPEG 13.7 does not start: internal error"));
}

TEST_F(NvjpegTest, AsksTheEngineWhichFilesItTakes) {
  const std::vector<std::string> names = {fake};
  behave("r");
  const Nvjpeg engine(names);
  EXPECT_TRUE(engine.accepts(file_of('a', 3)));
  EXPECT_FALSE(engine.accepts(file_of('r', 3)));
  EXPECT_FALSE(engine.accepts({}));
  behave("re");
  EXPECT_TRUE(Nvjpeg(names).accepts(file_of('r', 3)));
}

TEST_F(NvjpegTest, DecodesBatchesOfAnySize) {
  const Nvjpeg library(std::vector<std::string>{fake});
  Nvjpeg::State state(library);
  const auto a = file_of('a', 2), b = file_of('b', 1), c = file_of('c', 3);
  std::vector<uint8_t> pixels(64, 0);
  const auto item = [&](const std::vector<uint8_t>& file, size_t at) {
    return Nvjpeg::State::Item{.file = file, .pixels = pixels.data() + at, .pitch = 4};
  };
  EXPECT_EQ(state.decode(std::vector{item(a, 0), item(b, 16)}, nullptr), "");
  EXPECT_THAT(std::vector(pixels.begin(), pixels.begin() + 8),
              testing::ElementsAre('a', 'a', 'a', 0, 'a', 'a', 'a', 0));
  EXPECT_EQ(pixels[16], 'b');
  EXPECT_EQ(state.decode(std::vector{item(c, 32)}, nullptr), "");
  EXPECT_EQ(pixels[32 + 2 * 4], 'c');
  EXPECT_EQ(state.decode(std::vector{item(c, 0), item(b, 32)}, nullptr), "");
  EXPECT_EQ(pixels[32], 'b');
}

// For the largest seen, so that a run of images of all sizes soon asks for nothing more.
TEST_F(NvjpegTest, AllocatesForTheLargestImages) {
  const Nvjpeg library(std::vector<std::string>{fake});
  Nvjpeg::State state(library);
  const auto a = file_of('a', 1);
  std::vector<uint8_t> pixels(64, 0);
  const auto item = [&](int height, int width) {
    return Nvjpeg::State::Item{
        .file = a, .pixels = pixels.data(), .pitch = 3, .height = height, .width = width};
  };
  EXPECT_EQ(state.decode(std::vector{item(100, 129), item(200, 50)}, nullptr), "");
  EXPECT_EQ(capacity(), (std::vector{2, 128, 256}));
  EXPECT_EQ(state.decode(std::vector{item(300, 20)}, nullptr), "");
  EXPECT_EQ(capacity(), (std::vector{2, 384, 128}));
  EXPECT_EQ(state.decode(std::vector{item(384, 256), item(1, 1), item(1, 1)}, nullptr), "");
  EXPECT_EQ(capacity(), (std::vector{3, 384, 256}));
  EXPECT_EQ(state.decode(std::vector{item(5, 5)}, nullptr), "");
  EXPECT_EQ(capacity(), (std::vector{3, 384, 256}));
  // Three of these would be beyond the limit for a batch.
  EXPECT_EQ(state.decode(std::vector{item(10'000, 10'000)}, nullptr), "");
  EXPECT_EQ(capacity(), (std::vector{3, 384, 256}));
}

TEST_F(NvjpegTest, DecodesWhereAllocationFails) {
  const Nvjpeg library(std::vector<std::string>{fake});
  Nvjpeg::State state(library);
  const auto a = file_of('a', 1);
  std::vector<uint8_t> pixels(8, 0);
  const std::vector items = {Nvjpeg::State::Item{
      .file = a, .pixels = pixels.data(), .pitch = 3, .height = 700, .width = 900}};
  const std::vector<int> before = capacity();
  behave("p");
  EXPECT_EQ(state.decode(items, nullptr), "");
  behave("");
  EXPECT_EQ(state.decode(items, nullptr), "");  // and is not tried again
  EXPECT_EQ(capacity(), before);
}

TEST_F(NvjpegTest, GoesOnAfterABatchThatFailed) {
  const Nvjpeg library(std::vector<std::string>{fake});
  Nvjpeg::State state(library);
  const auto a = file_of('a', 1);
  std::vector<uint8_t> pixels(8, 0);
  const std::vector items = {Nvjpeg::State::Item{.file = a, .pixels = pixels.data(), .pitch = 3}};
  EXPECT_EQ(state.decode(items, nullptr), "");
  behave("d");
  EXPECT_EQ(state.decode(items, nullptr), "execution failed");
  EXPECT_EQ(state.decode(items, nullptr), "");
  behave("di");
  EXPECT_EQ(state.decode(items, nullptr), "execution failed");
  EXPECT_EQ(state.decode(items, nullptr), "internal error");
  EXPECT_EQ(state.decode(items, nullptr), "");
}

}  // namespace
}  // namespace whisker
