// The launcher with shell scripts as ranks.
#include "apps/ranks/launcher.h"

#include "apps/ranks/rank_rounds.h"
#include "core/io/file.h"
#include "tests/core/communicator/rank_threads.h"
#include "tests/support/temporary_folder.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace whisker {
namespace {

using testing::ElementsAre;

// Ranks that run `script`, which appends to the file "$0".
class Launcher : public testing::Test {
 protected:
  int start(const std::string& script, int most, int count = 2) {
    const auto program = [&](const std::string& text, const std::string& run) {
      return std::vector<std::string>{"sh", "-c", text, file(), run};
    };
    return start_ranks(
        count,
        {.most = most, .resume = [=](const std::string& run) { return program(script, run); }},
        {.path = "/bin/sh", .arguments = program(script, "")});
  }
  std::string file() const { return (folder_ / "said").string(); }
  std::string said() const {
    return std::filesystem::exists(file()) ? read_file(file(), 1 << 20, ErrorKind::data) : "";
  }

  TemporaryFolder folder_;
};

TEST_F(Launcher, TellsRanksWhoTheyAre) {
  EXPECT_EQ(start("[ $RANK = 1 ] && sleep 0.3; echo $RANK/$WORLD_SIZE/$LOCAL_WORLD_SIZE >> $0", 0),
            0);
  EXPECT_EQ(said(), "0/2/2\n1/2/2\n");
}

TEST_F(Launcher, EndsTheOthersWithTheFirstExitCode) {
  EXPECT_EQ(start("[ $RANK = 1 ] && exit 5; exec sleep 60", 0), 5);
}

TEST_F(Launcher, AKilledRankIsTheReasonThatOthersEnd) {
  EXPECT_EQ(start("[ $RANK = 1 ] && sleep 0.3 && kill -9 $$; exit 1", 0), 128 + 9);
}

TEST_F(Launcher, StartsAgainWhatMayPass) {
  const std::string counted = "[ $RANK = 0 ] && exit 0; echo x >> $0; ";
  EXPECT_EQ(start(counted + "[ $(wc -l < $0) -lt 3 ] && kill -9 $$; exit 0", 5), 0);
  EXPECT_EQ(said(), "x\nx\nx\n");
  EXPECT_EQ(start(counted + "exit 5", 1), 5) << "once more, and not again";
  EXPECT_EQ(said(), "x\nx\nx\nx\nx\n");
}

TEST_F(Launcher, GoesOnFromTheCheckpointOfTheReportedRun) {
  const std::string run = (folder_ / "run").string();
  std::filesystem::create_directories(run + "/last");
  const std::string script = "[ $RANK = 0 ] && echo \"=$1\" >> $0 && printf %s " + run +
                             " > /dev/fd/$WHISKER_RUN_FD; [ -n \"$1\" ] && exit 0; exit 1";
  EXPECT_EQ(start(script, 1), 1);
  EXPECT_EQ(said(), "=\n=\n") << "nothing was saved yet";
  std::filesystem::remove(file());
  { std::ofstream(run + "/last/state.json") << "{}"; }
  EXPECT_EQ(start(script, 1), 0);
  EXPECT_EQ(said(), "=\n=" + run + "\n");
}

/// The exit code of start(script) in a process of its own that is sent SIGTERM once the script has
/// said something; it has to end within 10 s.
template <class Start>
int code_after_sigterm(const Start& start, const std::string& file) {
  const pid_t launcher = ::fork();
  if (launcher == 0) ::_exit(start());
  while (!std::filesystem::exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ::kill(launcher, SIGTERM);
  int status = 0;
  for (int i = 0; i < 1000; ++i) {
    if (::waitpid(launcher, &status, WNOHANG) == launcher) return WEXITSTATUS(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, &status, 0);
  return -1;
}

TEST_F(Launcher, AStoppedRankObeysASignal) {
  const std::string stops = "echo x >> $0; kill -STOP $$; ";
  const auto code_of = [&](const std::string& script) {
    std::filesystem::remove(file());
    return code_after_sigterm([&] { return start(script, 3, 1); }, file());
  };
  EXPECT_EQ(code_of("trap 'exit 75' TERM; " + stops + "exec sleep 60"), 75) << "it may still save";
  EXPECT_EQ(code_of("trap 'kill -STOP $$' TERM; " + stops + stops + "exec sleep 60"), 128 + 9);
  EXPECT_EQ(said(), "x\n") << "no second start";
}

TEST_F(Launcher, LeavesWhatWouldFailAgain) {
  for (const int code : {2, 3, 4, 6, 75, 130}) {
    std::filesystem::remove(file());
    EXPECT_EQ(start(fmt::format("echo x >> $0; exit {}", code), 3, 1), code);
    EXPECT_EQ(said(), "x\n") << code;
  }
  std::filesystem::remove(file());
  EXPECT_EQ(start("echo x >> $0; exit 7", 3, 1), 7);
  EXPECT_EQ(said(), "x\nx\n") << "a divergence that repeats";
}

TEST(RankRounds, AreThoseOfOneRank) {
  RankGroup one;
  std::vector<std::string> reported;
  RankRounds rounds(one, 5, 2, [&](const std::string& result) { reported.push_back(result); });
  for (auto block = rounds.next(); block.size() > 0; block = rounds.next()) {
    rounds.add(fmt::format("{}-{}", block.begin, block.end));
  }
  rounds.finish();
  EXPECT_THAT(reported, ElementsAre("0-2", "2-4", "4-5"));
}

// Rank 0 of two that find the same.
struct Twins : RankGroup {
  Twins() : RankGroup(test::environment(0, 2, 0)) {}
  std::vector<std::string> all_gather(std::string_view bytes) override {
    longest = std::max(longest, bytes.size());
    return {std::string(bytes), std::string(bytes)};
  }
  size_t longest = 0;
};

TEST(RankRounds, LargeResultsTakeSeveralMessages) {
  Twins ranks;
  std::vector<std::string> reported, wanted;
  RankRounds rounds(
      ranks, 8, 4, [&](const std::string& result) { reported.push_back(result); }, 400);
  rounds.next();
  for (const size_t size : {90u, 80u, 300u, 10u}) {
    rounds.add(wanted.emplace_back(size, static_cast<char>('a' + wanted.size())));
  }
  rounds.finish();
  for (size_t i = 0; i < 4; ++i) wanted.push_back(wanted[i]);
  EXPECT_EQ(reported, wanted) << "rank 0's before rank 1's";
  EXPECT_LE(ranks.longest, 300 + sizeof(uint64_t)) << "the longest result alone";
}

}  // namespace
}  // namespace whisker
