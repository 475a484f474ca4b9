// split.csv: names of any kind come back, damage is refused, and images that trained are found
// again under whatever name.
#include "data/images/split_list.h"

#include "core/error.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;

ImageFolder folder_of(const std::filesystem::path& root, std::vector<ImageFile> files) {
  return {.root = root, .classes = {"a \"b\"", "c,d"}, .files = std::move(files), .skipped = {}};
}

TEST(SplitList, NamesOfAnyKindComeBack) {
  const TemporaryFolder folder;
  const std::string odd[] = {"c/1.jpg",       "c/with, comma.jpg", "c/with \"quotes\".jpg",
                             "c/line\nbreak", "c/carriage\r",      "c/\xff not UTF-8"};
  std::vector<ImageFile> files;
  for (const std::string& path : odd) {
    files.push_back({.path = path, .label = std::ssize(files) % 2, .bytes = files.size() + 7});
  }
  const ImageFolder train = folder_of("t", files), val = folder_of("v", {files[1]});
  const auto split = read_split(folder.write("split.csv", split_csv(train, val)));
  ASSERT_EQ(split.size(), 7U);
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(split[i].path, odd[i]);
    EXPECT_EQ(split[i].label, train.classes[i % 2]);
    EXPECT_EQ(split[i].split, "train");
    EXPECT_EQ(split[i].bytes, i + 7);
  }
  EXPECT_EQ(split[6].path, odd[1]);
  EXPECT_EQ(split[6].split, "val");
}

TEST(SplitList, DamageIsRefusedWithTheLine) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text, const std::string& says) {
    const auto file = folder.write("split.csv", text);
    EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { read_split(file); }), HasSubstr(says))
        << text;
  };
  const std::string header = "path,label,split,bytes\n";
  refused("", "expected the columns path, label, split, bytes");
  refused("path,label\na,b\n", "expected the columns");
  refused(header + "a,b,train\n", "split.csv:2: expected 4 fields");
  refused(header + "a,b,val,1\na,b,test,1\n", "split.csv:3: expected train or val");
  refused(header + "a,b,train,-1\n", "split.csv:2: expected train or val and a size");
  refused(header + "a,b,train,1x\n", "split.csv:2:");
  refused(header + "a,\"b,train,1\n", "no closing quote");
  EXPECT_EQ(read_split(folder.write("split.csv", header)).size(), 0U);
  EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { read_split(folder / "none.csv"); }),
              HasSubstr("none.csv"));
}

TEST(SplitList, ImagesThatTrainedAreFoundUnderAnyName) {
  const TemporaryFolder folder;
  const auto root = folder / "data";
  for (const char* name : {"1", "2", "3"}) folder.write(std::string("data/a/") + name, "seen");
  const std::vector<SplitEntry> split = {
      {"a/1", "a", "train", 4}, {"a/2", "a", "train", 4}, {"a/3", "a", "val", 4}};
  const auto count = [&](const std::filesystem::path& path, uint64_t bytes = 4) {
    const ImageFolder one = folder_of("", {{.path = path.string(), .bytes = bytes}});
    return count_trained(split, root, one);
  };
  EXPECT_EQ(count(root / "a/1"), 1);
  EXPECT_EQ(count(root / "a/../a/2"), 1);
  EXPECT_EQ(count(root / "a/3"), 0);  // validated on
  EXPECT_EQ(count(folder / "nowhere/b/1"), 0);
  std::filesystem::create_symlink(root / "a/1", folder / "link");
  EXPECT_EQ(count(folder / "link"), 1);
  // A copy is one by its content, as long as the original tells.
  EXPECT_EQ(count(folder.write("copy/a/1", "seen")), 1);
  EXPECT_EQ(count(folder.write("other/a/1", "new!")), 0);
  EXPECT_EQ(count(folder.write("other/a/9", "seen")), 0);
  std::filesystem::rename(root, folder / "moved");
  EXPECT_EQ(count(folder / "moved/a/1"), 1);
  EXPECT_EQ(count(folder / "moved/a/3"), 0);
  EXPECT_EQ(count(folder / "moved/a/1", 5), 0);
}

}  // namespace
}  // namespace whisker::test
