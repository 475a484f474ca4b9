// One writer per run folder, and none is ever overwritten.
#include "train/checkpoint/run_folder.h"

#include "core/error.h"
#include "core/io/file.h"
#include "tests/core/io/faulty_calls.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <fstream>
#include <map>
#include <optional>
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
    run.log("one line");
  }
  EXPECT_EQ(RunFolder::create(folder / "deep/er", "b").path(), folder / "deep/er/b");
}

/// What lay in a folder when it was flushed to disk.
class RecordedSyncs : public FileCalls {
 public:
  int open(const char* path, int flags, mode_t mode) const override {
    const int fd = FileCalls::open(path, flags, mode);
    paths_[fd] = path;
    return fd;
  }
  int fsync(int fd) const override {
    for (const auto& entry : fs::directory_iterator(paths_.at(fd))) synced.insert(entry.path());
    return FileCalls::fsync(fd);
  }
  mutable std::set<fs::path> synced;

 private:
  mutable std::map<int, fs::path> paths_;
};

TEST(RunFolder, WhatIsMadeIsDurableInTheFolderAbove) {
  const TemporaryFolder folder;
  const RecordedSyncs calls;
  const RunFolder run = RunFolder::create(folder / "deep/er", "a", calls);
  for (const char* made : {"deep", "deep/er", "deep/er/a", "deep/er/a/lock", "deep/er/a/last",
                           "deep/er/a/metrics.jsonl", "deep/er/a/log.txt"}) {
    EXPECT_TRUE(calls.synced.contains(folder / made)) << made;
  }
}

/// A whole run's writing beside its checkpoints.
void write_run(const fs::path& runs, const FileCalls& calls) {
  RunFolder run = RunFolder::create(runs, "a", calls);
  run.metrics().append("{}\n");
  run.metrics().sync();
  run.log("done");
  run.close();
}

TEST(RunFolder, EveryFailingCallIsADiskError) {
  int failures = 0;
  for (int index = 0;; ++index) {
    const TemporaryFolder folder;
    const FaultyCalls calls(index, EIO);
    std::string error;
    try {
      write_run(folder / "runs", calls);
    } catch (const Error& failure) {
      error = failure.what();
      EXPECT_EQ(failure.kind(), ErrorKind::disk) << error;
      EXPECT_THAT(error, testing::HasSubstr(folder.path().string()));
    }
    if (calls.failed_call().empty()) {  // every call has had its turn
      const std::vector<std::string>& made = calls.calls();
      EXPECT_EQ(std::ranges::count(made, "open"), 3);
      EXPECT_EQ(std::ranges::count(made, "close"), 3) << "each file's close is checked";
      break;
    }
    // Where the folder cannot be locked, the file in it is.
    EXPECT_EQ(error.empty(), calls.failed_call() == "flock folder") << calls.failed_call();
    ++failures;
  }
  EXPECT_GE(failures, 20);
  fmt::print("failing calls of a run's writing: {}\n", failures);
}

TEST(RunFolder, LinksAndPipesInItAreRefused) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "elsewhere");
  std::ofstream(folder / "elsewhere/model-1.safetensors") << "another run's";
  const auto refused = [&](const char* name, const char* says, const auto& put) {
    const fs::path path = RunFolder::create(folder / "runs", "run").path();
    std::ofstream(path / "config.yaml") << "model: chollet\n";
    fs::remove(path / name);
    put(path / name);
    EXPECT_THAT(test::message_of(ErrorKind::checkpoint, [&] { RunFolder::open(path); }),
                testing::HasSubstr(says));
  };
  const auto link = [&](const fs::path& to) {
    return [to](const fs::path& place) { fs::create_symlink(to, place); };
  };
  const auto pipe = [](const fs::path& place) { ASSERT_EQ(::mkfifo(place.c_str(), 0600), 0); };
  for (const char* name : {"lock", "metrics.jsonl", "log.txt"}) {
    refused(name, "expected a regular file of the run's own, got a symbolic link",
            link(folder / "elsewhere/model-1.safetensors"));
    refused(name, "expected a regular file of the run's own, got a pipe", pipe);
  }
  refused("last", "expected a folder of the run's own, got a symbolic link",
          link(folder / "elsewhere"));
  refused("last", "expected a folder of the run's own, got a pipe", pipe);
  refused("config.yaml", "not a run folder", pipe);
  EXPECT_EQ(read_file(folder / "elsewhere/model-1.safetensors", 99, ErrorKind::data),
            "another run's");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "elsewhere"), {}), 1);
}

TEST(RunFolder, OddNamesAndPlacesAreRefused) {
  const TemporaryFolder folder;
  for (const char* name : {"", ".", "..", "a/b", "/tmp"}) {
    EXPECT_THROW(RunFolder::create(folder.path(), name), Error) << name;
  }
  std::ofstream(folder / "file") << "x";
  for (const fs::path& runs : {folder / "file", folder / "file/deeper"}) {
    EXPECT_THAT(test::message_of(ErrorKind::usage, [&] { RunFolder::create(runs, "a"); }),
                testing::HasSubstr("/file', which is a file. Name another with runs=FOLDER"));
  }
  EXPECT_THAT(test::message_of(ErrorKind::usage, [&] { RunFolder::create(folder.path(), "file"); }),
              testing::HasSubstr("/file' is a file, where the folder of this run should be"));
  EXPECT_THROW(RunFolder::open(folder / "missing"), Error);
  EXPECT_THROW(RunFolder::open(folder.path()), Error);  // no config.yaml
  if (::geteuid() == 0) return;                         // root may write anywhere
  fs::create_directory(folder / "closed");
  ::chmod((folder / "closed").c_str(), 0500);
  EXPECT_NE(test::message_of(ErrorKind::usage, [&] { RunFolder::create(folder / "closed", "a"); }),
            "no error");
  ::chmod((folder / "closed").c_str(), 0700);
}

}  // namespace
}  // namespace whisker
