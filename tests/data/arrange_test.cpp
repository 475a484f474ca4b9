#include "data/arrange.h"

#include "core/error.h"
#include "core/io/file.h"
#include "data/image_folder.h"
#include "data/zip_archive.h"
#include "tests/support/temporary_folder.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

namespace whisker {
namespace {

using testing::HasSubstr;
using Files = std::map<std::string, std::string>;

Files content_of(const std::filesystem::path& root) {
  Files files;
  for (const WalkedFile& file : walk_files(root, "test").files) {
    files[file.path] = read_file(root / file.path, 1 << 24, ErrorKind::data);
  }
  return files;
}

/// Names are written as they are, also those that no honest archive holds.
void write_zip(const std::filesystem::path& path,
               const std::vector<std::pair<std::string, std::string>>& files) {
  int code = 0;
  zip_t* const zip = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  ASSERT_NE(zip, nullptr);
  for (const auto& [name, content] : files) {
    zip_source_t* const source = zip_source_buffer(zip, content.data(), content.size(), 0);
    ASSERT_GE(zip_file_add(zip, name.c_str(), source, ZIP_FL_ENC_UTF_8), 0) << name;
  }
  ASSERT_EQ(zip_close(zip), 0);
}

std::string error_of(const ArrangeOptions& options) {
  try {
    arrange_pictures(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class Arrange : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 10; ++i) {
      for (const std::string animal : {"cat", "dog"}) {
        folder_.write(fmt::format("flat/train/{}.{}.jpg", animal, i), animal + std::to_string(i));
      }
    }
    folder_.write("flat/notes.txt", "no picture");
    folder_.write("flat/odd.jpg");
  }
  TemporaryFolder folder_;
};

TEST_F(Arrange, MakesClassFoldersInEachMode) {
  for (const ArrangeMode mode : {ArrangeMode::link, ArrangeMode::copy, ArrangeMode::move}) {
    const auto target = folder_ / fmt::format("target{}", static_cast<int>(mode));
    const ArrangeResult result = arrange_pictures({.source = folder_ / "flat",
                                                   .target = target,
                                                   .label_pattern = "{label}.#.jpg",
                                                   .mode = mode});
    EXPECT_EQ(result.classes, (std::vector<std::string>{"cat", "dog"}));
    EXPECT_EQ(result.train_counts, (std::vector<int64_t>{10, 10}));
    EXPECT_EQ(result.skipped.size(), 2u);
    EXPECT_EQ(result.copied_files, mode == ArrangeMode::copy ? 20u : 0u);
    const Files files = content_of(target);
    EXPECT_EQ(files.size(), 20u);
    EXPECT_EQ(files.at("dog/dog.7.jpg"), "dog7");
    EXPECT_EQ(std::filesystem::hard_link_count(target / "cat/cat.0.jpg"),
              mode == ArrangeMode::copy ? 1u : 2u);
  }
  EXPECT_EQ(content_of(folder_ / "flat").size(), 2u);  // the last mode moved them
}

TEST_F(Arrange, SplitsOffAValidationSet) {
  const ArrangeResult result = arrange_pictures({.source = folder_ / "flat",
                                                 .target = folder_ / "target",
                                                 .label_pattern = "{label}.#.jpg",
                                                 .val_split = 0.2,
                                                 .seed = 3});
  EXPECT_EQ(result.train_counts, (std::vector<int64_t>{8, 8}));
  EXPECT_EQ(result.val_counts, (std::vector<int64_t>{2, 2}));
  const ImageFolder train = open_image_folder(result.train);
  const ImageFolder val = open_image_folder(result.val);
  EXPECT_NO_THROW(check_same_classes(train, val));
  EXPECT_EQ(train.size() + val.size(), 20);
}

TEST_F(Arrange, UnpacksAZipWithoutLeavingTheTarget) {
  write_zip(folder_ / "pets.zip", {{"train/cat.0.jpg", "c0"},
                                   {"train/cat.1.jpg", "c1"},
                                   {"train/dog.0.jpg", "d0"},
                                   {"extra/dog.0.jpg", "another"},
                                   {"train\\dog.1.jpg", "backslash"},
                                   {"../../dog.2.jpg", "climber"},
                                   {"/etc/dog.3.jpg", "absolute"},

                                   {"train/...jpg", "dots"},
                                   {"__MACOSX/train/._cat.0.jpg", "fork"},
                                   {"train/", ""},
                                   {"readme.txt", "text"}});
  const ArrangeResult result =
      arrange_pictures({.source = folder_ / "pets.zip", .target = folder_ / "a/b/target"});
  EXPECT_EQ(result.train_counts, (std::vector<int64_t>{2, 4}));
  ASSERT_EQ(result.skipped.size(), 2u);  // hidden ones are not mentioned
  EXPECT_EQ(result.skipped[0].reason, "leads out of the archive");
  EXPECT_EQ(content_of(folder_ / "a"), (Files{{"b/target/cat/cat.0.jpg", "c0"},
                                              {"b/target/cat/cat.1.jpg", "c1"},
                                              {"b/target/dog/dog.0.jpg", "d0"},
                                              {"b/target/dog/dog.0-2.jpg", "another"},
                                              {"b/target/dog/dog.1.jpg", "backslash"},
                                              {"b/target/dog/dog.3.jpg", "absolute"}}));
}

TEST_F(Arrange, RefusesBombsAndDamage) {
  const std::string zeros(4 << 20, '\0');
  write_zip(folder_ / "bomb.zip", {{"cat.0.jpg", zeros}, {"cat.1.jpg", zeros}, {"dog.0.jpg", "d"}});
  const auto with = [&](ArrangeOptions options) {
    static int number = 0;
    options.source = folder_ / "bomb.zip";
    options.target = folder_ / fmt::format("bomb{}", number++);
    return error_of(options);
  };
  EXPECT_EQ(with({}), "no error");  // control: it is whole and small
  EXPECT_THAT(with({.max_files = 2}), HasSubstr("at most 2 files"));
  EXPECT_THAT(with({.max_file_bytes = 1 << 20}), HasSubstr("cat.0.jpg would be 4.0 MiB"));
  EXPECT_THAT(with({.max_total_bytes = 6 << 20}), HasSubstr("unpacks to more than"));

  const std::string whole = read_file(folder_ / "bomb.zip", 1 << 24, ErrorKind::data);
  std::string damaged = whole;
  damaged[200] = static_cast<char>(damaged[200] ^ 0x10);
  folder_.write("bomb.zip", damaged);
  EXPECT_THAT(with({}), HasSubstr("cat.0.jpg is damaged"));
  folder_.write("bomb.zip", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(with({}), HasSubstr("not a readable zip archive"));
  folder_.write("bomb.zip", "no zip");
  EXPECT_THAT(with({}), HasSubstr("not a readable zip archive"));
  // The list says 4 bytes where 4 MiB come out: reading stops there.
  std::string liar = whole;
  const size_t list = liar.find("PK\x01\x02");
  ASSERT_NE(list, std::string::npos);
  liar.replace(list + 24, 4, std::string("\x04\0\0\0", 4));
  folder_.write("bomb.zip", liar);
  EXPECT_NE(with({}), "no error");
}

TEST_F(Arrange, SaysWhatIsWrong) {
  const auto source = folder_ / "flat";
  EXPECT_THAT(error_of({.source = folder_ / "none", .target = folder_ / "t"}),
              HasSubstr("does not exist"));
  EXPECT_THAT(error_of({.source = source, .target = source / "t"}), HasSubstr("inside the source"));
  EXPECT_THAT(error_of({.source = source, .target = source}), HasSubstr("inside the source"));
  EXPECT_THAT(error_of({.source = source, .target = folder_ / "t", .label_pattern = "{label}-x"}),
              HasSubstr("no picture in"));
  EXPECT_THAT(error_of({.source = source, .target = folder_ / "t", .label_pattern = "{label}.jpg"}),
              HasSubstr("expected several classes"));
  EXPECT_THAT(error_of({.source = source, .target = folder_ / "t", .label_pattern = "{label}"}),
              HasSubstr("Give another pattern"));
  EXPECT_THAT(error_of({.source = source, .target = folder_ / "t", .val_split = 1}),
              HasSubstr("val split"));
  folder_.write("full/x");
  EXPECT_THAT(error_of({.source = source, .target = folder_ / "full"}), HasSubstr("is not empty"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "t"));
}

}  // namespace
}  // namespace whisker
