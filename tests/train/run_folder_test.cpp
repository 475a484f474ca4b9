// One writer per run folder, and none is ever overwritten.
#include "train/run_folder.h"

#include "core/error.h"
#include "core/io/file.h"
#include "tests/support/temporary_folder.h"

#include <atomic>
#include <barrier>
#include <fstream>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace whisker {
namespace {

namespace fs = std::filesystem;
constexpr int starters = 8;

/// Runs `start` on eight threads at once.
template <class Start>
void race(Start start) {
  std::barrier line(starters);
  std::vector<std::jthread> threads;
  for (int i = 0; i < starters; ++i) {
    threads.emplace_back([&, i] {
      line.arrive_and_wait();
      start(i);
    });
  }
}

TEST(RunFolderThreads, FiftyRacesGiveEveryStarterAFolderOfItsOwn) {
  const TemporaryFolder folder;
  int races = 0;
  for (; races < 50; ++races) {
    std::vector<fs::path> paths(starters);
    race([&](int i) {
      paths[static_cast<size_t>(i)] =
          RunFolder::create(folder / "runs", fmt::format("race{}", races)).path();
    });
    EXPECT_EQ(std::set(paths.begin(), paths.end()).size(), size_t{starters});
  }
  fmt::print("races of {} starters for new folders: {}\n", starters, races);
}

TEST(RunFolderThreads, FiftyRacesToResumeHaveOneWinner) {
  const TemporaryFolder folder;
  const fs::path path = RunFolder::create(folder.path(), "run").path();
  std::ofstream(path / "config.yaml") << "model: chollet\n";
  int races = 0;
  for (; races < 50; ++races) {
    std::atomic<int> winners = 0, refused = 0;
    std::barrier all_tried(starters);
    race([&](int) {
      std::optional<RunFolder> mine;
      try {
        mine.emplace(RunFolder::open(path));
        ++winners;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::usage);
        EXPECT_THAT(error.what(), testing::HasSubstr("expected a free run folder"));
        ++refused;
      }
      all_tried.arrive_and_wait();
    });
    EXPECT_EQ(winners, 1);
    EXPECT_EQ(refused, starters - 1);
  }
  fmt::print("races of {} starters for one folder: {}, each with one winner\n", starters, races);
}

TEST(RunFolder, NamesCountUpAndNothingIsOverwritten) {
  const TemporaryFolder folder;
  for (const char* expected : {"a", "a-2", "a-3"}) {
    RunFolder run = RunFolder::create(folder.path(), "a");
    EXPECT_EQ(run.path(), folder / expected);
    run.log().append("one line\n");
  }
  EXPECT_EQ(RunFolder::create(folder / "deep/er", "b").path(), folder / "deep/er/b");
}

TEST(RunFolder, OddNamesAndPlacesAreRefused) {
  const TemporaryFolder folder;
  for (const char* name : {"", ".", "..", "a/b", "/tmp"}) {
    EXPECT_THROW(RunFolder::create(folder.path(), name), Error) << name;
  }
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(RunFolder::create(folder / "file", "a"), Error);
  EXPECT_THROW(RunFolder::open(folder / "missing"), Error);
  EXPECT_THROW(RunFolder::open(folder.path()), Error);  // no config.yaml
  if (::geteuid() == 0) return;                         // root may write anywhere
  fs::create_directory(folder / "closed");
  ::chmod((folder / "closed").c_str(), 0500);
  try {
    RunFolder::create(folder / "closed", "a");
    ADD_FAILURE() << "created in a folder closed to us";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
  }
  ::chmod((folder / "closed").c_str(), 0700);
}

}  // namespace
}  // namespace whisker
