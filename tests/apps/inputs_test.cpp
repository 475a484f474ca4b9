// Lines of a pipe: their ends, their mark, NUL between them, and an image in their place.
#include "apps/terminal/inputs.h"

#include "apps/terminal/command.h"
#include "core/error.h"
#include "tests/support/error_of.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace whisker {
namespace {

using testing::ElementsAre;
using namespace std::string_view_literals;

class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Pipe() {
    ::close(ends_[0]);
    close_writer();
  }
  void write(std::string_view bytes) {
    EXPECT_EQ(::write(ends_[1], bytes.data(), bytes.size()), std::ssize(bytes));
  }
  void close_writer() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }
  int reader() const { return ends_[0]; }

 private:
  std::array<int, 2> ends_ = {-1, -1};
};

std::vector<std::string> lines_in(std::string_view bytes, bool null = false) {
  Pipe pipe;
  pipe.write(bytes);
  pipe.close_writer();
  LineReader reader(pipe.reader(), "pipe", null);
  std::vector<std::string> lines;
  while (std::optional<std::string> line = reader.next()) lines.push_back(*line);
  return lines;
}

TEST(Lines, EndsAndMarksAreNoPartOfThem) {
  EXPECT_THAT(lines_in("\xef\xbb\xbf"
                       "a\r\n\nb\n\r\nc"),
              ElementsAre("a", "", "b", "", "c"));
  EXPECT_THAT(lines_in("a\r\nb\0\0c\r\0"sv, true), ElementsAre("a\r\nb", "", "c\r"));
  EXPECT_THAT(lines_in("\n\n"), ElementsAre("", ""));
}

// Whether a pipe that holds `bytes` begins as an image; it stays open unless `ends`.
bool is_image(std::string_view bytes, bool ends = false) {
  Pipe pipe;
  pipe.write(bytes);
  if (ends) pipe.close_writer();
  LineReader reader(pipe.reader(), "pipe");
  const bool image = reader.begins_as_image();
  pipe.close_writer();
  if (image) {
    EXPECT_EQ(reader.rest(), bytes);
  }
  return image;
}

TEST(Lines, AnImageIsToldByItsFirstBytes) {
  EXPECT_TRUE(is_image("\xff\xd8\xff\xe0 and what follows in it"));
  EXPECT_TRUE(is_image("\x89PNG\r\n\x1a\n and what follows"));
  EXPECT_TRUE(is_image("RIFF\x0a\0\0\0WEBPVP8 and more"sv));
  EXPECT_TRUE(is_image("BM\x36\x0c\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x20"sv));
  for (const char* pnm : {"P6\n", "P5\r\n", "P3 2 2 255\n", "P4\t8 8 \n", "P6 # by a camera\n"}) {
    EXPECT_TRUE(is_image(pnm)) << pnm;
  }
  for (const char* name :
       {"P6.ppm\n", "P7\n", "P1 2023.jpg\n", "P1 2 left.jpg\n", "P6x\n", "P66\n"}) {
    EXPECT_FALSE(is_image(name)) << name;
  }
  EXPECT_FALSE(is_image("photo.jpg\n"));  // answered before more comes
  EXPECT_FALSE(is_image("BM\n"));
  EXPECT_FALSE(is_image("BMW/1.jpg\n"));
  EXPECT_FALSE(is_image("BMWs of the nineties/1.jpg\n"));
  EXPECT_FALSE(is_image("RIFF.wav\n"));
  EXPECT_FALSE(is_image("RIFF raff and WEBP.jpg\n"));
  EXPECT_FALSE(is_image("B\n"));
  EXPECT_FALSE(is_image("\n"));
  for (const char* cut : {"", "B", "BM", "RIFF", "\xff", "\x89PNG", "P6", "P6 2 2", "GIF8"}) {
    EXPECT_FALSE(is_image(cut, true)) << cut;
  }
}

TEST(Lines, OtherFormatsAreCalledByTheirNames) {
  for (const auto& [bytes, format] :
       {std::pair{"GIF89a\x10\0\x10\0\xf7\0\0 and what follows it in the file"sv, "a GIF image"},
        {"II*\0\x08\0\0\0"sv, "a TIFF image"},
        {"\x1f\x8b\x08\0\0\0\0\0"sv, "a gzip file"},
        {"\0\0\0\x1c\x66typavif"sv, "an AVIF image"},
        {"PK\3\4\x14\0"sv, "a ZIP archive"}}) {
    Pipe pipe;
    pipe.write(bytes);
    pipe.close_writer();
    LineReader reader(pipe.reader(), "pipe");
    EXPECT_THAT(test::message_of(ErrorKind::data, [&] { reader.begins_as_image(); }),
                testing::HasSubstr(fmt::format("got {}; JPEG, PNG", format)));
  }
  for (const char* name : {"GIF8.jpg\n", "DDS 1.jpg\n", "<html>.png\n"}) {
    EXPECT_FALSE(is_image(name)) << name;
  }
}

TEST(Lines, WithNulAreCalledWhatTheyAre) {
  const auto refused = [](ErrorKind kind, std::string_view bytes, bool null = false) {
    return test::message_of(kind, [&] { lines_in(bytes, null); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(refused(ErrorKind::usage, "a.jpg\0b.jpg\0"sv), HasSubstr("need --null"));
  EXPECT_THAT(refused(ErrorKind::usage, "1\0002\0003\0"sv), HasSubstr("need --null"));
  EXPECT_THAT(refused(ErrorKind::usage, "\x1a\0\0\0\rIHDR\n"sv),
              HasSubstr("got bytes that are no text"));
  for (const bool null : {false, true}) {
    EXPECT_THAT(refused(ErrorKind::data, "\xff\xfe\x61\0\n\0"sv, null),
                HasSubstr("expected UTF-8, got UTF-16. Convert it: iconv -f UTF-16 -t UTF-8"));
  }
  EXPECT_THAT(refused(ErrorKind::data, "a\0.\0j\0p\0g\0\n\0"sv), HasSubstr("iconv -f UTF-16LE"));
  EXPECT_THAT(refused(ErrorKind::data, "\0a\0.\0j\0p\0g\0\n"sv), HasSubstr("iconv -f UTF-16BE"));
  for (const auto image :
       {"\xef\xbb\xbf\x89PNG\r\n\x1a\n\0\0\0\rIHDR"sv, "\xef\xbb\xbf\xff\xd8\xff\xe0"sv}) {
    EXPECT_THAT(test::message_of(ErrorKind::data, [&] { is_image(image, true); }),
                HasSubstr("an image behind UTF-8's byte order mark. Remove its first 3 bytes"));
  }
  EXPECT_FALSE(
      is_image("\xef\xbb\xbf"
               "a.jpg\n"));
  EXPECT_FALSE(is_image("\xef\xbb\xbf\n"));
}

TEST(InputNames, ShowEveryNameButTheCopyOfAnImageAsItIs) {
  const InputNames names({"a.jpg"}, {.images = true});
  EXPECT_EQ(names.shown("a.jpg"), "a.jpg");
  EXPECT_EQ(names.shown(""), "") << "an empty line";
}

TEST(NumberRange, HasNoNaN) {
  const CLI::Validator range = number_range(0, 1);
  for (const char* number : {"0", "1", "0.5", "1e-3"}) EXPECT_EQ(range(number), "") << number;
  for (const char* none : {"nan", "-nan", "NaN", "inf", "-0.1", "1.1", "x", ""}) {
    EXPECT_THAT(range(none), testing::HasSubstr("expected a number from 0 to 1")) << none;
  }
}

// CLI11 2.4 takes --train.epochs for --epochs of the subcommand train.
TEST(WordsToParse, DoubleTheDotBehindSubcommandsAlone) {
  CLI::App app;
  app.add_subcommand("train");
  app.add_subcommand("study")->add_subcommand("graph");
  std::vector<std::string> words{"whisker",   "--train.epochs=3", "--graph.x",   "--text=a.b",
                                 "--- Mr. 5", "--1.5 of 5",       "--{label}.*", "--",
                                 "--train.x"};
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  EXPECT_THAT(words_to_parse(app, pointers),
              testing::ElementsAre("--train.x", "--", "--{label}.*", "--1.5 of 5", "--- Mr. 5",
                                   "--text=a.b", "--.graph.x", "--.train.epochs=3"));
}

}  // namespace
}  // namespace whisker
