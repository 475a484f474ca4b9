// The files of a run that is going on: its log, and the lock that keeps other writers out.
#include "core/io/run_files.h"

#include "faulty_calls.h"
#include "scratch.h"

#include <cstdlib>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace whisker {
namespace {

using testing::HasSubstr;

TEST(LogFile, AppendsTruncatesAndRefusesToGrow) {
  const ScratchFolder folder;
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
  try {
    log.truncate_to(1000);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::checkpoint);
    EXPECT_EQ(error.what(),
              (folder / "metrics.jsonl").string() +
                  ": expected at least 1000 bytes, as the checkpoint says, got 19. The log was "
                  "shortened or replaced after the checkpoint.");
  }
}

TEST(LogFile, FailedWritesAndFlushesAreDiskErrors) {
  const ScratchFolder folder;
  for (const int index : {1, 2}) {
    const FaultyCalls calls(index, ENOSPC);
    LogFile log(folder / "log", calls);
    try {
      log.append("line\n");
      log.sync();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::disk);
      EXPECT_THAT(error.what(), HasSubstr("No space left on device"));
    }
  }
}

TEST(FolderLock, LetsOneWriterInAndNamesIt) {
  const ScratchFolder folder;
  {
    const FolderLock lock(folder.path());
    try {
      const FolderLock second(folder.path());
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_EQ(error.what(),
                fmt::format("{}: expected a free run folder, process {} is writing to it. Stop it "
                            "or wait for it.",
                            folder.path().string(), ::getpid()));
    }
  }
  const FolderLock again(folder.path());
}

// How many of eight processes got in; without a lock all do.
int winners_of_a_race(bool locked) {
  const ScratchFolder folder;
  std::vector<pid_t> starters;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        std::optional<FolderLock> lock;
        if (locked) lock.emplace(folder.path());
        ::usleep(200'000);  // longer than the start of all
      } catch (const Error&) {
        ::_exit(2);
      }
      ::_exit(0);
    }
    starters.push_back(child);
  }
  int winners = 0;
  for (const pid_t child : starters) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    winners += WEXITSTATUS(status) == 0 ? 1 : 0;
  }
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
