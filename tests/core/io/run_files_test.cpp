// The files of a run that is going on: its log, and the lock that keeps other writers out.
#include "core/io/run_files.h"

#include "faulty_calls.h"
#include "scratch.h"
#include "tests/support/error_of.h"

#include <cstdlib>
#include <functional>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace whisker {
namespace {

using testing::HasSubstr;

TEST(LogFile, AppendsTruncatesAndRefusesToGrow) {
  const TemporaryFolder folder;
  put_file(folder / "metrics.jsonl", "{}\n");
  LogFile log(folder / "metrics.jsonl");
  EXPECT_EQ(log.offset(), 3u);
  log.append("{\"a\":1}\n");
  const uint64_t checkpoint = log.offset();
  log.append("{\"a\":2}\n");
  log.truncate_to(checkpoint);
  log.append("{\"b\":3}\n");
  log.sync();
  EXPECT_EQ(content_of(folder / "metrics.jsonl"), "{}\n{\"a\":1}\n{\"b\":3}\n");
  EXPECT_EQ(test::message_of(ErrorKind::checkpoint, [&] { log.truncate_to(1000); }),
            (folder / "metrics.jsonl").string() +
                ": expected at least 1000 bytes from the checkpoint, got 19. The log was "
                "shortened or replaced after the checkpoint.");
}

TEST(LogFile, FailedWritesFlushesAndClosesAreDiskErrors) {
  const TemporaryFolder folder;
  for (const int index : {1, 2, 3}) {
    const FaultyCalls calls(index, ENOSPC);
    LogFile log(folder / "log", calls);
    EXPECT_THAT(test::message_of(ErrorKind::disk,
                                 [&] {
                                   log.append("line\n");
                                   log.sync();
                                   log.close();
                                 }),
                HasSubstr("No space left on device"))
        << index;
  }
}

std::string refusal_of(const std::filesystem::path& folder,
                       const FileCalls& calls = system_file_calls()) {
  return test::message_of(ErrorKind::usage, [&] { FolderLock(folder, calls); });
}

TEST(FolderLock, LetsOneWriterInAndNamesIt) {
  const TemporaryFolder folder;
  {
    const FolderLock lock(folder.path());
    EXPECT_EQ(refusal_of(folder.path()),
              fmt::format("{}: expected a free run folder, process {} is writing to it. Stop it or "
                          "wait for it.",
                          folder.path().string(), ::getpid()));
  }
  const FolderLock again(folder.path());
}

// A link at the file's place, or anything but a file, is refused, and its target left alone.
TEST(RunFiles, ARunFolderIsKnownByItsStateOrItsLogs) {
  const TemporaryFolder folder;
  for (const char* state : {"", "{}", R"({"version":1,"mode":"x"})", R"( {"version":1})"}) {
    folder.write("other/last/state.json", state);
    folder.write("other/config.yaml");
    EXPECT_FALSE(is_run_folder(folder / "other")) << state;
  }
  folder.write("run/last/state.json", R"({"version":1,"model":{"name":"model-3.safetensors"}})");
  EXPECT_TRUE(is_run_folder(folder / "run"));
  EXPECT_FALSE(is_run_folder(folder / "run/last"));
  EXPECT_FALSE(is_run_folder(folder.path()));
  folder.write("begun/lock");
  folder.write("begun/metrics.jsonl");
  EXPECT_FALSE(is_run_folder(folder / "begun"));
  std::filesystem::create_directory(folder / "begun/last");
  EXPECT_TRUE(is_run_folder(folder / "begun"));
}

TEST(RunFiles, LinksPipesAndFoldersAreRefused) {
  namespace fs = std::filesystem;
  const std::pair<const char*, std::function<void(const fs::path& place, const fs::path& target)>>
      cases[] = {
          {"got a symbolic link", [](auto& place, auto& to) { fs::create_symlink(to, place); }},
          {"got a symbolic link",  // to nothing, which O_CREAT would make
           [](auto& place, auto& to) { fs::create_symlink(to.parent_path() / "absent", place); }},
          {"got one with 2 names", [](auto& place, auto& to) { fs::create_hard_link(to, place); }},
          {"got a pipe", [](auto& place, auto&) { ASSERT_EQ(::mkfifo(place.c_str(), 0600), 0); }},
          {"got a folder", [](auto& place, auto&) { fs::create_directory(place); }},
      };
  for (const auto& [says, put] : cases) {
    for (const bool log : {true, false}) {
      const TemporaryFolder elsewhere, run;
      put_file(elsewhere / "thesis.txt", "years of work");
      put(run / "lock", elsewhere / "thesis.txt");
      const std::string error = test::message_of(ErrorKind::checkpoint, [&, log = log] {
        if (log) LogFile(run / "lock").append("line\n");
        if (!log) FolderLock(run.path());
      });
      EXPECT_THAT(error, HasSubstr((run / "lock").string() + ": expected a regular file"));
      EXPECT_THAT(error, HasSubstr(says));
      EXPECT_EQ(content_of(elsewhere / "thesis.txt"), "years of work");
      EXPECT_FALSE(fs::exists(elsewhere / "absent"));
    }
  }
}

TEST(FolderLock, WithoutItsFileItStillKeepsOthersOut) {
  const TemporaryFolder folder;
  const FolderLock lock(folder.path());
  std::filesystem::remove(folder / "lock");
  EXPECT_THAT(refusal_of(folder.path()), HasSubstr("process of unknown id is writing to it"));
  put_file(folder / "secret", "hunter2");
  std::filesystem::create_symlink(folder / "secret", folder / "lock");
  EXPECT_THAT(refusal_of(folder.path()), HasSubstr("process of unknown id is writing to it"));
}

/// Network file systems lock no folders.
class NetworkCalls : public FileCalls {
 public:
  int flock(int fd, int operation) const override {
    struct stat info {};
    if (::fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode)) return FileCalls::flock(fd, operation);
    errno = EBADF;
    return -1;
  }
};

TEST(FolderLock, WhereFoldersCannotBeLockedItsFileIs) {
  const TemporaryFolder folder;
  const NetworkCalls calls;
  const FolderLock lock(folder.path(), calls);
  EXPECT_THAT(refusal_of(folder.path(), calls),
              HasSubstr(fmt::format("process {} is writing to it", ::getpid())));
}

// How many of eight processes got in; without a lock all do. Those that did stay until all have
// tried.
int winners_of_a_race(bool locked) {
  const TemporaryFolder folder;
  int tried[2], finish[2];
  EXPECT_EQ(::pipe(tried), 0);
  EXPECT_EQ(::pipe(finish), 0);
  char byte = 0;
  std::vector<pid_t> starters;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(finish[1]);
      std::optional<FolderLock> lock;
      int status = 0;
      try {
        if (locked) lock.emplace(folder.path());
      } catch (const Error&) {
        status = 2;
      }
      if (::write(tried[1], &byte, 1) != 1) status = 3;
      if (::read(finish[0], &byte, 1) != 0) status = 3;  // until the parent closes its end
      ::_exit(status);
    }
    starters.push_back(child);
  }
  ::close(tried[1]);
  for (size_t i = 0; i < starters.size(); ++i) EXPECT_EQ(::read(tried[0], &byte, 1), 1);
  ::close(finish[1]);
  int winners = 0;
  for (const pid_t child : starters) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_NE(WEXITSTATUS(status), 3);
    winners += WEXITSTATUS(status) == 0 ? 1 : 0;
  }
  ::close(tried[0]);
  ::close(finish[0]);
  return winners;
}

// Of several starters at once exactly one gets in.
TEST(FolderLock, RacesHaveOneWinner) {
  const int races = std::getenv("WHISKER_LONG") != nullptr ? 50 : 5;
  for (int race = 0; race < races; ++race) EXPECT_EQ(winners_of_a_race(true), 1);
  const int control = winners_of_a_race(false);
  EXPECT_EQ(control, 8) << "control: without the lock everyone gets in";
  fmt::print("n = {} races of 8 with one winner each; control without a lock: {}\n", races,
             control);
}

}  // namespace
}  // namespace whisker
