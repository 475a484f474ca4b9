// Atomic files under failing calls and kill -9, each with a control writer that writes in place and
// must fail the same check.
#include "core/io/atomic_file.h"

#include "core/io/hash.h"
#include "core/work_progress.h"
#include "faulty_calls.h"
#include "scratch.h"
#include "tests/support/error_of.h"

#include <algorithm>
#include <csignal>
#include <random>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace whisker {
namespace {

using testing::ElementsAre;

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
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
  put_file(folder / "a", "old");
  { AtomicFile(folder / "a").write("new"); }
  EXPECT_EQ(content_of(folder / "a"), "old");
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

TEST(AtomicFile, CountsAndHashesWhatItWrites) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "a");
  file.write("ab");
  file.write("c");
  file.commit();
  EXPECT_EQ(file.size(), 3u);
  EXPECT_EQ(file.hash().value(), hash64("abc"));
}

TEST(AtomicFile, WrongPathsAreUsageErrors) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      test::message_of(ErrorKind::usage, [&] { write_file_atomically(folder / "absent/a", "x"); }),
      (folder / "absent/a").string() +
          ": cannot create: No such file or directory. Check the path and its permissions.");
}

// Runs `writer` once per call and error, that call failing; returns how often the promise broke:
// success was claimed, the error was of another kind or did not name the file, or the file was
// neither the old one nor (once renamed) the new one, complete.
int broken_promises(Writer writer, int& n) {
  int broken = 0;
  const std::string old_content(200'000, 'o'), new_content(250'000, 'n');
  for (const int error : {ENOSPC, EIO}) {
    for (int index = 0;; ++index) {
      const TemporaryFolder folder;
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
  const TemporaryFolder folder;
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
  const TemporaryFolder folder;
  put_file(folder / ".123-0.whisker-tmp", "left by a killed writer");
  put_file(folder / "weights", "kept");
  EXPECT_EQ(remove_stale_temporaries(folder.path()), 1);
  EXPECT_EQ(entries_in(folder.path()), 1u);
}

/// A disk that keeps nothing and counts what it is asked for.
class CountedCalls final : public FileCalls {
 public:
  ssize_t write(int, const void*, size_t count) const override {
    most = std::max(most, count);
    return static_cast<ssize_t>(count);
  }
  int fsync(int) const override {
    ++syncs;
    return 0;
  }
  mutable size_t most = 0;
  mutable int syncs = 0;
};

// The watch of several ranks takes silence for a hang, and a disk may take seconds for 64 MiB.
TEST(AtomicFile, ALargeFileReachesTheDiskInPartsThatShowProgress) {
  const TemporaryFolder folder;
  const std::string piece(20 << 20, 'x');
  const uint64_t before = work_progress().count;
  const CountedCalls calls;
  AtomicFile file(folder / "large", calls);
  for (int i = 0; i < 8; ++i) file.write(piece);  // 160 MiB
  EXPECT_EQ(calls.most, size_t{1} << 20);
  EXPECT_EQ(calls.syncs, 2);
  EXPECT_GE(work_progress().count - before, 160u);
}

}  // namespace
}  // namespace whisker
