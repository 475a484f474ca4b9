// What the watch of a run's ranks, here threads, takes for a failure.
#include "core/communicator/rank_watch.h"

#include "tests/core/communicator/rank_threads.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;

/// The failure that each of three ranks hears of when rank 2 does `last`. A watch whose process
/// would end waits here instead.
template <class Last>
std::vector<RankFailure> failures(double silence_s, const Last& last) {
  std::vector<RankFailure> heard(3);
  std::vector<std::atomic<bool>> done(3);
  in_ranks(3, [&](RankGroup& group) {
    const auto own = static_cast<size_t>(group.rank());
    RankWatch watch(group, "127.0.0.1",
                    [&, own](const RankFailure& failure) {
                      if (!done[own]) heard[own] = failure;
                      done[own] = true;
                    },
                    {.silence_s = silence_s});
    if (own == 2) {
      last(watch);
      done[own] = true;
    }
    for (int i = 0; i < 1000 && !(done[0] && done[1] && done[2]); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  return heard;
}

TEST(RankWatch, TellsWhichRankFailedAndWhy) {
  const auto heard = failures(20, [](RankWatch& watch) { watch.fail(3, "no such file", [] {}); });
  for (const size_t rank : {0u, 1u}) {
    EXPECT_EQ(heard[rank].rank, 2);
    EXPECT_EQ(heard[rank].code, 3);
    EXPECT_EQ(heard[rank].reason, "no such file");
    EXPECT_FALSE(heard[rank].host.empty());
    EXPECT_FALSE(heard[rank].tell);
  }
}

/// Collectives that fail from the third question on.
class BrokenLink final : public Collectives {
 public:
  std::string error() override { return ++asked_ < 3 ? "" : "lost a link"; }
  void abort() override { aborted = true; }
  std::atomic<bool> aborted = false;

 private:
  int asked_ = 0;
};

TEST(RankWatch, ABrokenLinkEndsAllAndItsCollectives) {
  std::vector<RankFailure> heard(3);
  std::vector<std::atomic<bool>> done(3);
  BrokenLink link;
  in_ranks(3, [&](RankGroup& group) {
    const auto own = static_cast<size_t>(group.rank());
    if (own == 1) group.watch_collectives(&link);
    RankWatch watch(group, "127.0.0.1",
                    [&, own](const RankFailure& failure) {
                      if (!done[own]) heard[own] = failure;
                      done[own] = true;
                    },
                    {.silence_s = 20});
    for (int i = 0; i < 1000 && !(done[0] && done[1] && done[2]); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    group.watch_collectives(nullptr);
  });
  for (const size_t rank : {0u, 1u, 2u}) {
    EXPECT_EQ(heard[rank].rank, 1);
    EXPECT_EQ(heard[rank].code, 5);
    EXPECT_EQ(heard[rank].reason, "lost a link");
    EXPECT_EQ(heard[rank].tell, rank == 1);
  }
  EXPECT_TRUE(link.aborted);
}

TEST(RankWatch, OrderlyEndsAreNoFailures) {
  in_ranks(3, [](RankGroup& group) {
    RankWatch watch(
        group, "127.0.0.1",
        [](const RankFailure& failure) { ADD_FAILURE() << failure.rank << failure.reason; },
        {.silence_s = 20});
    group.barrier();
    watch.leave();
  });
}

/// What becomes of three ranks that report `at(second)` each, within `seconds` and a limit of 20.
struct Report {
  WorkProgress progress;
  bool on_device = false;
};
using Reports = std::function<std::array<Report, 3>(uint64_t second)>;

std::optional<RankCourses::Hang> hang_of(const Reports& at, uint64_t seconds) {
  RankCourses courses(3, 20);
  courses.restart(Deadline());
  for (uint64_t second = 1; second <= seconds; ++second) {
    const Deadline now = Deadline() + std::chrono::seconds(second);
    const std::array<Report, 3> reports = at(second);
    for (size_t rank = 0; rank < 3; ++rank) {
      courses.follow(static_cast<int>(rank), reports[rank].progress, reports[rank].on_device, now);
    }
    if (auto hang = courses.hang(now)) return hang;
  }
  return std::nullopt;
}

Report at_work(uint64_t second) {
  return {.progress = {.count = second}};
}
/// After so many seconds.
Report stops(uint64_t second, uint64_t last, Waiting waiting = Waiting::nothing,
             bool on_device = false) {
  return {.progress = {.count = std::min(second, last), .waiting = waiting},
          .on_device = on_device};
}

TEST(RankCourses, ARankThatMakesNoProgressHangs) {
  for (const size_t victim : {0u, 2u}) {
    for (const bool others_work : {true, false}) {
      const auto reports = [&](uint64_t second) {
        const Report other = others_work ? at_work(second) : stops(second, 5, Waiting::ranks);
        std::array<Report, 3> all = {other, other, other};
        all[victim] = stops(second, 3);
        return all;
      };
      EXPECT_FALSE(hang_of(reports, 25));
      const auto hang = hang_of(reports, 26);
      ASSERT_TRUE(hang);
      EXPECT_EQ(hang->rank, static_cast<int>(victim));
      EXPECT_EQ(hang->reason,
                "hangs: it has made no progress for 20 s, the limit of WHISKER_SILENCE_S");
    }
  }
}

TEST(RankCourses, ARankThatWaitsForOneAtWorkDoesNotHang) {
  const auto waiting = [](uint64_t second) {
    return std::array{stops(second, 3, Waiting::ranks), at_work(second / 15),
                      stops(second, 3, Waiting::ranks)};
  };
  EXPECT_FALSE(hang_of(waiting, 1000)) << "a step of 15 s";
  const auto on_gpus = [](uint64_t second) {
    return std::array{stops(second, 3, Waiting::nothing, true), at_work(second),
                      stops(second, 3, Waiting::nothing, true)};
  };
  EXPECT_FALSE(hang_of(on_gpus, 1000)) << "their GPUs wait for rank 1's";
}

TEST(RankCourses, RanksThatWaitForEachOtherHangAndTheFirstIsNamed) {
  for (const bool on_device : {false, true}) {
    const Waiting waiting = on_device ? Waiting::nothing : Waiting::ranks;
    const auto hang = hang_of(
        [&](uint64_t second) {
          return std::array{stops(second, 5, waiting, on_device),
                            stops(second, 2, waiting, on_device),
                            stops(second, 4, waiting, on_device)};
        },
        1000);
    ASSERT_TRUE(hang);
    EXPECT_EQ(hang->rank, 1);
    EXPECT_EQ(hang->reason,
              "stopped first: no rank has made progress for 20 s, the limit of "
              "WHISKER_SILENCE_S");
  }
}

TEST(RankCourses, StartsAndReadersOutsideTakeTheirTime) {
  const auto outside = [](uint64_t second) {
    return std::array{stops(second, 0, Waiting::outside), stops(second, 3, Waiting::ranks),
                      stops(second, 3, Waiting::ranks)};
  };
  EXPECT_FALSE(hang_of(outside, 100'000));
  const auto start = [](uint64_t second) {
    return std::array{stops(second, 0, Waiting::start), at_work(second), at_work(second)};
  };
  EXPECT_FALSE(hang_of(start, 302));
  const auto hang = hang_of(start, 303);
  ASSERT_TRUE(hang) << "but not for ever";
  EXPECT_EQ(hang->rank, 0);
}

TEST(RankCourses, AProcessThatWasStoppedBeginsAnew) {
  RankCourses courses(2, 20);
  courses.restart(Deadline());
  const Deadline later = Deadline() + std::chrono::seconds(100);
  EXPECT_TRUE(courses.hang(later));
  courses.restart(later);
  EXPECT_FALSE(courses.hang(later + std::chrono::seconds(22)));
}

TEST(RankWatch, ARankThatHangsEndsAllThoughItsBeatGoesOn) {
  std::vector<RankFailure> heard(3);
  std::vector<std::atomic<bool>> done(3);
  in_ranks(3, [&](RankGroup& group) {
    const auto own = static_cast<size_t>(group.rank());
    std::atomic<uint64_t> count = 0;
    RankWatch watch(group, "127.0.0.1",
                    [&, own](const RankFailure& failure) {
                      if (!done[own]) heard[own] = failure;
                      done[own] = true;
                    },
                    {.silence_s = 4, .progress = [&, own] {
                       return WorkProgress{.count = own == 1 ? 0 : ++count};
                     }});
    for (int i = 0; i < 3000 && !(done[0] && done[1] && done[2]); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    watch.leave();
  });
  for (const size_t rank : {0u, 1u, 2u}) {
    EXPECT_EQ(heard[rank].rank, 1);
    EXPECT_EQ(heard[rank].tell, rank == 0);
    EXPECT_THAT(heard[rank].reason, HasSubstr("has made no progress for 4 s"));
  }
}

TEST(WorkProgress, CountsAndTellsWhatIsWaitedFor) {
  const uint64_t before = work_progress().count;
  count_progress();
  EXPECT_GT(work_progress().count, before);
  EXPECT_EQ(work_progress().waiting, Waiting::nothing);
  {
    const WaitScope outer(Waiting::outside);
    const WaitScope inner(Waiting::ranks);
    EXPECT_EQ(work_progress().waiting, Waiting::outside);
  }
  EXPECT_EQ(work_progress().waiting, Waiting::nothing);
  EXPECT_GT(work_progress().count, before + 1) << "the end of waiting is progress";
}

}  // namespace
}  // namespace whisker::test
