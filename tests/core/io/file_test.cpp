// Atomic files under failing calls and kill -9, each with a control writer that writes
// in place and must fail the same check; logs, locks, maps and hashes.
#include "core/io/file.h"

#include "core/io/atomic_file.h"
#include "core/io/hash.h"
#include "core/io/run_files.h"
#include "faulty_calls.h"
#include "scratch.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <random>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace whisker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What a writer under test does: replace `path` by `content`, in pieces.
using Writer = void (*)(const std::filesystem::path&, std::string_view content, const FileCalls&);

constexpr size_t piece_bytes = 100'000;

void write_atomically(const std::filesystem::path& path, std::string_view content,
                      const FileCalls& calls) {
  AtomicFile file(path, calls);
  for (; !content.empty(); content.remove_prefix(std::min(content.size(), piece_bytes))) {
    file.write(content.substr(0, piece_bytes));
  }
  file.commit();
}

// The control: checks every call, but writes over the old file.
void write_in_place(const std::filesystem::path& path, std::string_view content,
                    const FileCalls& calls) {
  FileDescriptor fd(calls.open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) fail_disk("open", path, errno);
  for (; !content.empty(); content.remove_prefix(std::min(content.size(), piece_bytes))) {
    write_all(calls, fd.get(), std::as_bytes(std::span(content.substr(0, piece_bytes))), path);
  }
  if (calls.fsync(fd.get()) != 0) fail_disk("flush to disk", path, errno);
  if (calls.close(fd.release()) != 0) fail_disk("close", path, errno);
}

size_t entries_in(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(AtomicFile, OrderIsWriteFsyncCloseRenameFsyncOfTheFolder) {
  const ScratchFolder folder;
  const FaultyCalls calls;
  write_atomically(folder / "a", std::string(150'000, 'x'), calls);
  EXPECT_THAT(calls.calls(), ElementsAre("open", "write", "write", "fsync", "close", "rename",
                                         "open folder", "fsync folder", "close folder"));
  EXPECT_EQ(content_of(folder / "a"), std::string(150'000, 'x'));
  const FaultyCalls control;
  write_in_place(folder / "a", "y", control);
  EXPECT_THAT(control.calls(), ElementsAre("open", "write", "fsync", "close"));
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
  const ScratchFolder folder;
  put_file(folder / "a", "old");
  { AtomicFile(folder / "a").write("new"); }
  EXPECT_EQ(content_of(folder / "a"), "old");
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

TEST(AtomicFile, CountsAndHashesWhatItWrites) {
  const ScratchFolder folder;
  AtomicFile file(folder / "a");
  file.write("ab");
  file.write("c");
  file.commit();
  EXPECT_EQ(file.size(), 3u);
  EXPECT_EQ(file.hash().value(), hash64("abc"));
}

TEST(AtomicFile, WrongPathsAreUsageErrors) {
  const ScratchFolder folder;
  try {
    write_file_atomically(folder / "absent/a", "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_EQ(error.what(), (folder / "absent/a").string() +
                                ": cannot create: No such file or directory. Check the path and "
                                "its permissions.");
  }
}

// Runs `writer` once per call and error, that call failing; returns how often the promise broke:
// success was claimed, the error was of another kind or did not name the file, or the file was
// neither the old one nor (once renamed) the new one, complete.
int broken_promises(Writer writer, int& n) {
  int broken = 0;
  const std::string old_content(200'000, 'o'), new_content(250'000, 'n');
  for (const int error : {ENOSPC, EIO}) {
    for (int index = 0;; ++index) {
      const ScratchFolder folder;
      const std::filesystem::path path = folder / "weights";
      put_file(path, old_content);
      const FaultyCalls calls(index, error);
      bool honest = false;
      try {
        writer(path, new_content, calls);
      } catch (const Error& failure) {
        honest = failure.kind() == ErrorKind::disk &&
                 std::string(failure.what()).find(folder.path().string()) != std::string::npos;
      }
      if (calls.failed_call().empty()) break;  // every call has had its turn
      const std::vector<std::string>& made = calls.calls();
      const auto renamed = std::find(made.begin(), made.end(), "rename");
      const bool is_new = renamed != made.end() && calls.failed_call() != "rename";
      const bool fsync_retried =
          calls.failed_call() == "fsync" && std::count(made.begin(), made.end(), "fsync") != 1;
      const bool tidy = entries_in(folder.path()) == 1;
      const bool intact = content_of(path) ==
                          (is_new && index >= renamed - made.begin() ? new_content : old_content);
      broken += honest && intact && tidy && !fsync_retried ? 0 : 1;
      ++n;
    }
  }
  return broken;
}

TEST(AtomicFile, FailingCallsGiveDiskErrorsAndKeepTheOldFile) {
  int n = 0, control_n = 0;
  EXPECT_EQ(broken_promises(write_atomically, n), 0);
  EXPECT_GE(n, 16);
  EXPECT_GT(broken_promises(write_in_place, control_n), 0) << "the control must fail";
  fmt::print("n = {} injected failures, control {}\n", n, control_n);
}

// Kills a child that replaces one file again and again; returns how many of `n` kills left a file
// that is not one complete version.
int torn_after_kills(Writer writer, int n) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder / "state";
  constexpr size_t bytes = 2'000'000;
  put_file(path, std::string(bytes, 'a'));
  std::mt19937 random(11);
  int torn = 0;
  for (int i = 0; i < n; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (char version = 'a';; version = version == 'z' ? 'a' : static_cast<char>(version + 1)) {
        try {
          writer(path, std::string(bytes, version), system_file_calls());
        } catch (const std::exception&) {
          ::_exit(1);
        }
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(2'000 + random() % 30'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the writer failed by itself";
    const std::string content = content_of(path);
    const bool complete =
        content.size() == bytes && content.find_first_not_of(content[0]) == std::string::npos;
    torn += complete ? 0 : 1;
    if (!complete) put_file(path, std::string(bytes, 'a'));
  }
  if (writer == write_atomically) {
    remove_stale_temporaries(folder.path());
    EXPECT_EQ(entries_in(folder.path()), 1u);
  }
  return torn;
}

TEST(AtomicFile, KillNineLeavesACompleteFile) {
  constexpr int n = 200;
  EXPECT_EQ(torn_after_kills(write_atomically, n), 0);
  const int control = torn_after_kills(write_in_place, n);
  EXPECT_GT(control, 0) << "the control must tear";
  fmt::print("n = {} kills: 0 torn, control in place {} torn\n", n, control);
}

TEST(AtomicFile, StaleTemporariesAreRemoved) {
  const ScratchFolder folder;
  put_file(folder / ".123-0.whisker-tmp", "left by a killed writer");
  put_file(folder / "weights", "kept");
  EXPECT_EQ(remove_stale_temporaries(folder.path()), 1);
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

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

// Expected values from the reference implementation (Python's xxhash 3.5, xxh64 with seed 0).
TEST(Hash64, MatchesTheReferenceHoweverTheStreamIsCut) {
  std::string bytes31, bytes1000;
  for (int i = 0; i < 31; ++i) bytes31 += static_cast<char>(i);
  for (int i = 0; i < 1000; ++i) bytes1000 += static_cast<char>(i % 251);
  EXPECT_EQ(hash64(""), 0xef46db3751d8e999u);
  EXPECT_EQ(hash64("abc"), 0x44bc2cf5ad770999u);
  EXPECT_EQ(hash64(bytes31), 0xc346d2b59b4d8ee1u);
  EXPECT_EQ(hash64(bytes1000), 0xf306f04aa88b54d3u);
  for (size_t cut = 1; cut < 100; ++cut) {
    Hash64 hash;
    for (size_t i = 0; i < bytes1000.size(); i += cut) {
      hash.update(std::string_view(bytes1000).substr(i, cut));
    }
    EXPECT_EQ(hash.value(), 0xf306f04aa88b54d3u) << cut;
    EXPECT_EQ(hash.hex(), "f306f04aa88b54d3");
  }
}

}  // namespace
}  // namespace whisker
