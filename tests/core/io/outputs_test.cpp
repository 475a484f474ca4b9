// What a command may write, and what it must leave alone: inputs, other outputs, files of runs, and
// what is not its own.
#include "core/io/outputs.h"

#include "core/io/temporaries.h"
#include "scratch.h"
#include "tests/support/error_of.h"

#include <array>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace whisker {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr OutputFormat note_format{.name = "a file of notes", .is_own = [](std::string_view begin) {
                                     return begin.starts_with("notes");
                                   }};
constexpr OutputFormat never_replaced{.name = "import"};

size_t entries_below(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::recursive_directory_iterator(folder), {}));
}

// The refusal of an output, which leaves the folder as it was.
std::string refused_output(const TemporaryFolder& folder, Outputs& outputs, const fs::path& path,
                           const OutputFormat& format = note_format) {
  const size_t before = entries_below(folder.path());
  const std::string message =
      test::message_of(ErrorKind::usage, [&] { outputs.open("-o", path, format); });
  EXPECT_EQ(entries_below(folder.path()), before);
  return message;
}

void write_out(Outputs& outputs, const fs::path& path, std::string_view content,
               const OutputFormat& format = note_format) {
  const auto file = outputs.open("-o", path, format);
  file->write(content);
  outputs.commit(*file, "-o", format);
}

TEST(Outputs, ANewFileIsThereOnceItIsWhole) {
  const TemporaryFolder folder;
  Outputs outputs("test");
  {
    const auto file = outputs.open("-o", folder / "a", note_format);
    EXPECT_EQ(entries_below(folder.path()), 1u);  // the temporary, before anything is computed
    EXPECT_FALSE(fs::exists(folder / "a"));
  }
  EXPECT_EQ(entries_below(folder.path()), 0u);
  write_out(outputs, folder / "b", "notes");
  EXPECT_EQ(content_of(folder / "b"), "notes");
}

TEST(Outputs, OnlyItsOwnKindIsReplacedWithoutForce) {
  const TemporaryFolder folder;
  for (const char* other : {"", "label\n", "note", "Notes"}) {
    put_file(folder / "a", other);
    Outputs outputs("test");
    EXPECT_THAT(refused_output(folder, outputs, folder / "a"),
                HasSubstr("exists and is not a file of notes, or was edited since. Name another "
                          "file, or add --force"));
    EXPECT_EQ(content_of(folder / "a"), other);
  }
  put_file(folder / "a", "notes 1");
  std::vector<std::string> told;
  {
    Outputs outputs("test", false, [&](const std::string& note) { told.push_back(note); });
    write_out(outputs, folder / "a", "notes 2");
  }
  EXPECT_EQ(content_of(folder / "a"), "notes 2");
  EXPECT_THAT(
      told, ElementsAre(fmt::format("test -o: replaced a file of notes of an earlier command: '{}'",
                                    (folder / "a").string())));
}

TEST(Outputs, WeightsAreReplacedOnlyWithForce) {
  const TemporaryFolder folder;
  put_file(folder / "w", "notes");
  Outputs outputs("test");
  EXPECT_THAT(refused_output(folder, outputs, folder / "w", never_replaced),
              HasSubstr("add --force"));
  std::vector<std::string> told;
  {
    Outputs forced("test", true, [&](const std::string& note) { told.push_back(note); });
    write_out(forced, folder / "w", "new", never_replaced);
  }
  EXPECT_EQ(content_of(folder / "w"), "new");
  EXPECT_THAT(told, ElementsAre(HasSubstr("test -o --force: replaced: '")));
}

TEST(Outputs, AFileThatCameInTheMeantimeStays) {
  const TemporaryFolder folder;
  Outputs outputs("test");
  const auto file = outputs.open("-o", folder / "a", note_format);
  file->write("notes");
  put_file(folder / "a", "somebody's");
  EXPECT_TRUE(test::refused(ErrorKind::usage, [&] { outputs.commit(*file, "-o", note_format); }));
  EXPECT_EQ(content_of(folder / "a"), "somebody's");
}

// By its own name, another spelling, a symbolic and a hard link; also with --force, also when the
// input becomes known later.
TEST(Outputs, AnInputIsNoOutput) {
  const TemporaryFolder folder;
  put_file(folder / "input", "notes");
  fs::create_directory(folder / "sub");
  fs::create_symlink(folder / "input", folder / "soft");
  fs::create_hard_link(folder / "input", folder / "hard");
  fs::create_directory_symlink(folder.path(), folder / "sub/up");
  for (const char* name : {"input", "sub/../input", "soft", "hard", "sub/up/input"}) {
    for (const bool force : {false, true}) {
      Outputs outputs("test", force);
      outputs.add_input(folder / "input");
      EXPECT_THAT(refused_output(folder, outputs, folder / name), HasSubstr("is an input")) << name;
      Outputs data("test", force);
      data.add_data(folder / "soft");
      EXPECT_THAT(refused_output(folder, data, folder / name), HasSubstr("is an input")) << name;
      Outputs later("test", force);
      const auto file = later.open("-o", folder / name, note_format);
      EXPECT_TRUE(test::refused(ErrorKind::usage, [&] { later.add_input(folder / "input"); }));
    }
  }
  EXPECT_EQ(content_of(folder / "input"), "notes");
}

TEST(Outputs, NoOutputLiesAmongTheData) {
  const TemporaryFolder folder;
  folder.write("photos/cat/0.jpg");
  fs::create_directory_symlink(folder / "photos/cat", folder / "link");
  for (const char* name : {"photos/a", "photos/cat/a", "link/a"}) {
    Outputs outputs("test", true);
    outputs.add_data(folder / "photos");
    EXPECT_THAT(refused_output(folder, outputs, folder / name), HasSubstr("lies in the folder"))
        << name;
    Outputs later("test", true);
    const auto file = later.open("-o", folder / name, note_format);
    EXPECT_TRUE(test::refused(ErrorKind::usage, [&] { later.add_data(folder / "photos"); }));
  }
  Outputs beside("test");
  beside.add_data(folder / "photos");
  write_out(beside, folder / "a", "notes");
}

TEST(Outputs, AFolderThatALinkLeadsToIsReadAsWell) {
  const TemporaryFolder folder;
  folder.write("photos/cat/0.jpg");
  folder.write("other/deep/1.jpg");
  fs::create_directory_symlink(folder / "other", folder / "photos/more");
  for (const char* name : {"other/a", "other/deep/a"}) {
    Outputs outputs("test", true);
    for (const char* data : {"photos", "photos/cat/0.jpg", "photos/more/deep/1.jpg"}) {
      outputs.add_data(folder / data);
    }
    EXPECT_THAT(refused_output(folder, outputs, folder / name), HasSubstr("lies in the folder"));
    EXPECT_TRUE(
        test::refused(ErrorKind::usage, [&] { outputs.open_folder("--cam", folder / name); }));
  }
  Outputs beside("test");  // files that were given by themselves
  beside.add_data(folder / "photos/cat/0.jpg");
  beside.add_data(folder / "other/deep/1.jpg");
  write_out(beside, folder / "photos/cat/a", "notes");
  write_out(beside, folder / "other/deep/a", "notes");
}

TEST(Outputs, AnOutputFolderKeepsApartFromTheData) {
  const TemporaryFolder folder;
  folder.write("photos/cat/0.jpg");
  fs::create_directory_symlink(folder / "photos", folder / "link");
  fs::create_directory(folder / "real");
  fs::create_directory_symlink(folder / "real", folder / "photos/more");
  folder.write("real/1.jpg");
  const auto refused = [&](const fs::path& name, const std::vector<std::string>& data) {
    Outputs outputs("test", true);
    for (const std::string& path : data) outputs.add_data(folder / path);
    const bool before =
        test::refused(ErrorKind::usage, [&] { outputs.open_folder("--cam", name); });
    Outputs later("test", true);
    const bool after = test::refused(ErrorKind::usage, [&] {
      later.open_folder("--cam", name);
      for (const std::string& path : data) later.add_data(folder / path);
    });
    EXPECT_EQ(before, after) << name;
    return before;
  };
  for (const char* name : {"photos", "photos/cat", "photos/new/maps", "link", "link/cat", ""}) {
    EXPECT_TRUE(refused(folder / name, {"photos"})) << name;
  }
  EXPECT_TRUE(refused(folder / "photos/cat", {"photos/cat/0.jpg"}));
  EXPECT_TRUE(refused(folder.path(), {"photos/cat/0.jpg"}));
  EXPECT_TRUE(refused(folder / "real", {"photos/more/1.jpg"}));  // through a link
  EXPECT_FALSE(refused(folder / "maps", {"photos", "photos/cat/0.jpg"}));
  EXPECT_FALSE(fs::exists(folder / "maps"));  // nothing was written to it
}

TEST(Outputs, TwoOutputsHaveTwoNames) {
  const TemporaryFolder folder;
  fs::create_directory_symlink(folder.path(), folder / "here");
  put_file(folder / "old", "notes");
  fs::create_hard_link(folder / "old", folder / "hard");
  for (const auto& [first, second] :
       {std::pair{"a", "a"}, {"a", "here/a"}, {"old", "hard"}, {"a", "./a"}}) {
    Outputs outputs("test", true);
    const auto file = outputs.open("--first", folder / first, note_format);
    EXPECT_THAT(test::message_of(ErrorKind::usage,
                                 [&] { outputs.open("--second", folder / second, note_format); }),
                HasSubstr("is an output of this command already (test --first"));
  }
  Outputs outputs("test");
  const auto file = outputs.open("--first", folder / "maps", note_format);
  EXPECT_TRUE(
      test::refused(ErrorKind::usage, [&] { outputs.open_folder("--cam", folder / "maps"); }));
}

TEST(Outputs, FilesOfARunAreNeverReplaced) {
  const TemporaryFolder folder;
  for (const char* name :
       {"config.yaml", "metrics.jsonl", "log.txt", "log.rank12.txt", "lock", "best.safetensors",
        "split.csv", "trace.json", "validation.safetensors", "metrics.csv", "tensorboard/events",
        "last/state.json", "last/model-3.safetensors"}) {
    folder.write(fmt::format("run/{}", name), "notes");
    fs::create_symlink(folder / fmt::format("run/{}", name),
                       folder / fmt::format("link{}", entries_below(folder.path())));
  }
  size_t checked = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    if (fs::is_directory(entry)) continue;
    Outputs outputs("test", true);
    EXPECT_THAT(refused_output(folder, outputs, entry.path()), HasSubstr("is a file of the run"))
        << entry.path();
    ++checked;
  }
  EXPECT_EQ(checked, 26u);
  Outputs outputs("test");
  EXPECT_THAT(refused_output(folder, outputs, folder / "run/find_lr.svg"),
              HasSubstr("a file of the run"));
  write_out(outputs, folder / "run/page.html", "notes");  // one of the user's beside them
  EXPECT_TRUE(
      test::refused(ErrorKind::usage, [&] { outputs.open_folder("--cam", folder / "run/last"); }));
  outputs.open_folder("--cam", folder / "run/maps");
  put_file(folder / "config.yaml", "notes");  // no run
  write_out(outputs, folder / "config.yaml", "notes");
}

TEST(Outputs, PipesAndDevicesAreWrittenInto) {
  const TemporaryFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink(pipe, folder / "link");
  for (const char* name : {"pipe", "link"}) {
    auto read = std::async(std::launch::async, [&] { return content_of(pipe); });
    Outputs outputs("test");
    write_out(outputs, folder / name, "notes");
    EXPECT_EQ(read.get(), "notes");
    EXPECT_TRUE(fs::is_fifo(pipe));
  }
  Outputs outputs("test");
  write_out(outputs, "/dev/null", "notes");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_TRUE(test::refused(ErrorKind::disk, [&] { write_out(outputs, "/dev/full", "notes"); }));
  EXPECT_EQ(entries_below(folder.path()), 2u);
}

TEST(Outputs, ADescriptorIsWrittenAtItsOwnPosition) {
  const TemporaryFolder folder;
  const FileDescriptor file(::open((folder / "a").c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(::write(file.get(), "before ", 7), 7);
  Outputs outputs("test");
  write_out(outputs, fmt::format("/dev/fd/{}", file.get()), "notes");
  ASSERT_EQ(::write(file.get(), " after", 6), 6);
  EXPECT_EQ(content_of(folder / "a"), "before notes after");
  for (const char* process : {"/proc/thread-self", "/proc/self"}) {
    Outputs others("test");
    write_out(others, fmt::format("{}/fd/{}", process, file.get()), "notes");
  }
  EXPECT_EQ(content_of(folder / "a"), "before notes afternotesnotes");
  const FileDescriptor read_only(::open((folder / "a").c_str(), O_RDONLY));
  EXPECT_TRUE(test::refused(ErrorKind::usage, [&] {
    outputs.open("-o", fmt::format("/proc/self/fd/{}", read_only.get()), note_format);
  }));
}

// As of a process substitution in another shell.
TEST(Outputs, APipeOfAnotherProcessIsWrittenInto) {
  std::array<int, 2> pipe{}, ready{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {  // has the pipe open until the other one is closed
    ::close(ready[1]);
    char none = 0;
    ::_exit(::read(ready[0], &none, 1) == 0 ? 0 : 1);
  }
  {
    Outputs outputs("test");
    write_out(outputs, fmt::format("/proc/{}/fd/{}", child, pipe[1]), "notes");
  }
  std::array<char, 8> read{};
  EXPECT_EQ(::read(pipe[0], read.data(), read.size()), 5);
  EXPECT_EQ(std::string(read.data()), "notes");
  for (const int fd : {ready[0], ready[1], pipe[0], pipe[1]}) ::close(fd);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Outputs, WhatIsNoFileIsRefused) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "folder");
  fs::create_symlink(folder / "gone", folder / "broken");
  Outputs outputs("test", true);
  EXPECT_THAT(refused_output(folder, outputs, folder / "folder"), HasSubstr("got a folder"));
  EXPECT_THAT(refused_output(folder, outputs, folder / "broken"), HasSubstr("a link to nothing"));
  EXPECT_THAT(refused_output(folder, outputs, ""), HasSubstr("expected the name of a file"));
  EXPECT_THAT(refused_output(folder, outputs, folder / "absent/a"), HasSubstr("No such file"));
  put_file(folder / "file", "notes");
  EXPECT_TRUE(
      test::refused(ErrorKind::usage, [&] { outputs.open_folder("--cam", folder / "file"); }));
}

TEST(Outputs, AFolderOfOutputs) {
  const TemporaryFolder folder;
  Outputs outputs("test");
  outputs.open_folder("--cam", folder / "new/maps");
  outputs.write("--cam", folder / "new/maps", "cat/0.jpg", "notes", note_format);
  EXPECT_EQ(content_of(folder / "new/maps/cat/0.jpg"), "notes");
  outputs.write("--cam", folder / "new/maps", "cat/0.jpg", "notes again", note_format);
  EXPECT_EQ(content_of(folder / "new/maps/cat/0.jpg"), "notes again");
  folder.write("new/maps/cat/1.jpg", "mine");
  EXPECT_TRUE(test::refused(ErrorKind::usage, [&] {
    outputs.write("--cam", folder / "new/maps", "cat/1.jpg", "notes", note_format);
  }));
  EXPECT_EQ(content_of(folder / "new/maps/cat/1.jpg"), "mine");
}

// Root may write anywhere: it becomes nobody for a while.
class WithoutRoot {
 public:
  WithoutRoot() {
    constexpr uid_t nobody = 65534;
    changed_ = ::geteuid() == 0 && ::seteuid(nobody) == 0;
  }
  ~WithoutRoot() {
    const int back = changed_ ? ::seteuid(0) : 0;
    EXPECT_EQ(back, 0);
  }

 private:
  bool changed_ = false;
};

// An unwritable place costs nothing: it is refused before anything is computed.
TEST(Outputs, WhatCannotBeWrittenIsRefusedAtOnce) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "read_only");
  fs::create_directory(folder / "open");
  put_file(folder / "open/read_only", "notes");
  fs::permissions(folder / "open/read_only", fs::perms(0444));
  fs::permissions(folder / "read_only", fs::perms(0555));
  fs::permissions(folder / "open", fs::perms(0777));
  fs::permissions(folder.path(), fs::perms(0755));
  {
    const WithoutRoot nobody;
    Outputs outputs("test");
    EXPECT_THAT(refused_output(folder, outputs, folder / "read_only/a"),
                HasSubstr("Permission denied"));
    EXPECT_THAT(refused_output(folder, outputs, folder / "open/read_only"),
                HasSubstr("is read-only"));
    for (const char* name : {"read_only", "read_only/maps"}) {
      EXPECT_TRUE(
          test::refused(ErrorKind::usage, [&] { outputs.open_folder("--cam", folder / name); }));
    }
    write_out(outputs, folder / "open/new", "notes");
  }
  EXPECT_EQ(content_of(folder / "open/new"), "notes");
}

// Removes what is unfinished and ends, in a process of its own.
void end_without_temporaries() {
  remove_temporaries();
  ::_exit(0);
}

TEST(Outputs, UnfinishedOnesAreRemovedAtTheEnd) {
  const TemporaryFolder folder;
  Outputs outputs("test");
  outputs.open_folder("--cam", folder / "maps/deep");
  const auto file = outputs.open("-o", folder / "a", note_format);
  folder.write("kept", "x");
  EXPECT_EXIT(end_without_temporaries(), testing::ExitedWithCode(0), "");
  EXPECT_EQ(entries_below(folder.path()), 1u);
  EXPECT_TRUE(fs::exists(folder / "kept"));
}

TEST(Outputs, AfterManyFoldersAnUnfinishedOneIsStillRemoved) {
  const TemporaryFolder folder;
  Outputs outputs("test");
  outputs.open_folder("--cam", folder / "maps");
  for (int i = 0; i < 40; ++i) {
    outputs.write("--cam", folder / "maps", fmt::format("{}/a", i), "notes", note_format);
  }
  const size_t written = entries_below(folder.path());
  const auto file = outputs.open("-o", folder / "a", note_format);
  EXPECT_EQ(entries_below(folder.path()), written + 1);
  EXPECT_EXIT(end_without_temporaries(), testing::ExitedWithCode(0), "");
  EXPECT_EQ(entries_below(folder.path()), written);
}

// Else what was written long ago would keep later files from being remembered.
TEST(Outputs, ThreadsThatWriteAtOnceForgetTheirTemporaries) {
  const TemporaryFolder folder;
  const auto write_many = [&](const char* name) {
    for (int i = 0; i < 20000; ++i) {
      create_temporary(folder / name, [] { return true; });
      forget_temporary(folder / name);
    }
  };
  const auto other = std::async(std::launch::async, write_many, "a");
  write_many("b");
  other.wait();
  const auto late = std::make_unique<AtomicFile>(folder / "late");
  EXPECT_EQ(entries_below(folder.path()), 1u);
  EXPECT_EXIT(end_without_temporaries(), testing::ExitedWithCode(0), "");
  EXPECT_EQ(entries_below(folder.path()), 0u);
}

TEST(Outputs, NoneIsCreatedWhileTheProcessEnds) {
  const TemporaryFolder folder;
  const auto end_beside_a_writer = [&] {
    std::thread([&] {
      for (;;) const AtomicFile file(folder / "a");
    }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    remove_temporaries();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ::_exit(0);
  };
  for (int i = 0; i < 20; ++i) {
    EXPECT_EXIT(end_beside_a_writer(), testing::ExitedWithCode(0), "");
    EXPECT_EQ(entries_below(folder.path()), 0u);
  }
}

}  // namespace
}  // namespace whisker
