// Reading and mapping whole files, and what may be opened for it.
#include "core/io/file.h"

#include "scratch.h"
#include "tests/support/error_of.h"

#include <functional>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace whisker {
namespace {

TEST(ReadFile, ReadsWholeAndRefusesMissingAndLarge) {
  const TemporaryFolder folder;
  const std::string content(100'000, 'x');
  put_file(folder / "a", content);
  EXPECT_EQ(read_file(folder / "a", 100'000, ErrorKind::data), content);
  for (const auto& [name, cap, message] :
       {std::tuple("a", 99'999, ": expected at most 97.7 KiB, the file is larger."),
        std::tuple("b", 1, ": cannot open: No such file or directory."),
        std::tuple(".", 1, ": expected a regular file, got a folder.")}) {
    EXPECT_EQ(test::message_of(ErrorKind::data,
                               [&, name = name, cap = cap] {
                                 read_file(folder / name, static_cast<size_t>(cap),
                                           ErrorKind::data);
                               }),
              (folder / name).string() + message);
  }
}

TEST(MappedFile, MapsFilesAndRefusesPipesAndFolders) {
  const TemporaryFolder folder;
  put_file(folder / "a", "abc");
  put_file(folder / "empty", "");
  const MappedFile whole(folder / "a", ErrorKind::checkpoint);
  EXPECT_EQ(whole.bytes().size(), 3u);
  EXPECT_EQ(std::to_integer<char>(whole.bytes()[1]), 'b');
  EXPECT_TRUE(MappedFile(folder / "empty", ErrorKind::data).bytes().empty());
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const auto map = [&](const char* name) { MappedFile(folder / name, ErrorKind::checkpoint); };
  const auto read = [&](const char* name) { read_file(folder / name, 9, ErrorKind::checkpoint); };
  for (const auto& [name, what] : {std::pair("pipe", "a pipe"), std::pair(".", "a folder")}) {
    for (const auto& opens : {std::function<void(const char*)>(map), {read}}) {
      EXPECT_EQ(test::message_of(ErrorKind::checkpoint, [&, name = name] { opens(name); }),
                (folder / name).string() + ": expected a regular file, got " + what + ".");
    }
  }
}

// What a user names may be <(...) or a FIFO, which is waited for.
TEST(ReadFile, AStreamMayBeAPipe) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  put_file(folder / "file", "rows");
  const std::jthread writer([&] { put_file(folder / "pipe", "rows"); });
  for (const char* name : {"pipe", "file"}) {
    EXPECT_EQ(read_file(folder / name, 4, ErrorKind::data, Source::stream), "rows");
  }
  EXPECT_EQ(test::message_of(ErrorKind::data,
                             [&] { read_file(folder.path(), 4, ErrorKind::data, Source::stream); }),
            folder.path().string() + ": expected a file or a pipe, got a folder.");
}

}  // namespace
}  // namespace whisker
