// Reading and mapping whole files.
#include "core/io/file.h"

#include "scratch.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace whisker {
namespace {

TEST(ReadFile, ReadsWholeAndRefusesMissingAndLarge) {
  const ScratchFolder folder;
  const std::string content(100'000, 'x');
  put_file(folder / "a", content);
  EXPECT_EQ(read_file(folder / "a", 100'000, ErrorKind::data), content);
  for (const auto& [name, cap, message] :
       {std::tuple("a", 99'999, ": expected at most 97.7 KiB, the file is larger."),
        std::tuple("b", 1, ": cannot open: No such file or directory."),
        std::tuple(".", 1, ": cannot read: Is a directory.")}) {
    try {
      read_file(folder / name, static_cast<size_t>(cap), ErrorKind::data);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_EQ(error.what(), (folder / name).string() + message);
    }
  }
}

TEST(MappedFile, MapsFilesAndRefusesPipesAndFolders) {
  const ScratchFolder folder;
  put_file(folder / "a", "abc");
  put_file(folder / "empty", "");
  const MappedFile map(folder / "a", ErrorKind::checkpoint);
  EXPECT_EQ(map.bytes().size(), 3u);
  EXPECT_EQ(std::to_integer<char>(map.bytes()[1]), 'b');
  EXPECT_TRUE(MappedFile(folder / "empty", ErrorKind::data).bytes().empty());
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* name : {"pipe", "."}) {
    try {
      const MappedFile refused(folder / name, ErrorKind::checkpoint);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::checkpoint);
      EXPECT_EQ(error.what(), (folder / name).string() + ": expected a regular file.");
    }
  }
}

}  // namespace
}  // namespace whisker
