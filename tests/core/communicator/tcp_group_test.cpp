// Ranks as threads of this process: rendezvous, messages, and what keeps strangers out.
#include "core/communicator/tcp_group.h"

#include "core/communicator/rank_watch.h"
#include "tests/support/error_of.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>

namespace whisker::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

int free_port() {
  return port_of(listen_at("127.0.0.1", 0));
}

RankEnvironment environment(int rank, int world, int port, std::string secret = "s") {
  RankEnvironment one;
  one.rank = rank;
  one.world = world;
  one.port = port;
  one.secret = std::move(secret);
  return one;
}

/// work(group) of each of `world` ranks, in threads.
template <class Work>
void in_ranks(int world, const Work& work) {
  const int port = free_port();
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([=] {
      TcpGroup group(environment(rank, world, port), 20);
      work(group);
    });
  }
}

TEST(TcpGroup, GathersByRank) {
  in_ranks(3, [](RankGroup& group) {
    for (int i = 0; i < 100; ++i) {
      const std::string own(static_cast<size_t>(group.rank() * i), 'x');
      const auto all = group.all_gather(own);
      ASSERT_EQ(all.size(), 3u);
      for (size_t rank = 0; rank < 3; ++rank) ASSERT_EQ(all[rank].size(), rank * i);
    }
    EXPECT_THAT(group.gather(10 * group.rank()), ElementsAre(0, 10, 20));
    EXPECT_EQ(group.from_leader(group.leads() ? "x" : "y"), "x");
  });
}

TEST(TcpGroup, NamesTheRanksThatAreMissing) {
  const int port = free_port();
  std::jthread one([&] { error_of([&] { TcpGroup(environment(1, 4, port), 10); }); });
  EXPECT_THAT(error_of([&] { TcpGroup(environment(0, 4, port), 5); }),
              HasSubstr("for 4 ranks, but ranks 2, 3 did not come"));
}

TEST(TcpGroup, MissesRank0) {
  EXPECT_THAT(error_of([] { TcpGroup(environment(1, 2, free_port()), 0.3); }),
              HasSubstr("rank 1: rank 0 did not answer"));
}

TEST(TcpGroup, RefusesStrangers) {
  const int port = free_port();
  std::string wrong_secret, other_world, twice;
  std::jthread guests([&] {
    wrong_secret = error_of([&] { TcpGroup(environment(1, 2, port, "guess"), 5); });
    other_world = error_of([&] { TcpGroup(environment(1, 3, port), 5); });
    const auto silent = connect_until("127.0.0.1", port, in_seconds(5));
    send_message(*silent, std::string(100, 'x'));
    TcpGroup group(environment(1, 2, port), 10);
    group.barrier();
  });
  TcpGroup group(environment(0, 2, port), 20);
  group.barrier();
  guests.join();
  EXPECT_THAT(wrong_secret, HasSubstr("refused it: its secret is not this run's"));
  EXPECT_THAT(other_world, HasSubstr("it expects 3 ranks, rank 0 2"));
}

TEST(TcpGroup, ASecondRunOnThePortIsTold) {
  const FileDescriptor first = listen_at("127.0.0.1", 0);
  EXPECT_THAT(error_of([&] { TcpGroup(environment(0, 2, port_of(first)), 1); }),
              HasSubstr("set MASTER_PORT to one that is free"));
}

TEST(Socket, AnAddressThatDropsPacketsKeepsNobodyWaiting) {
  const auto begin = std::chrono::steady_clock::now();
  constexpr const char* documentation = "192.0.2.1";  // RFC 5737: nobody's
  EXPECT_FALSE(connect_until(documentation, 9, in_seconds(0.3)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
}

TEST(Socket, ListensWhereItWasToldUnlessOnlyThisMachineReachesThat) {
  EXPECT_EQ(listening_address("127.0.0.1", true), "127.0.0.1");
  EXPECT_EQ(listening_address("::1", true), "::1");
  EXPECT_EQ(listening_address("localhost", true), "localhost");
  EXPECT_EQ(listening_address("name-that-nobody-resolves", false), "name-that-nobody-resolves");
  // RFC 6761: any name below localhost resolves to loopback where it resolves at all, as the own
  // name does on Debian.
  addrinfo* found = nullptr;
  if (::getaddrinfo("host.localhost", nullptr, nullptr, &found) != 0) return;
  ::freeaddrinfo(found);
  EXPECT_EQ(listening_address("host.localhost", true), "0.0.0.0");
  EXPECT_EQ(listening_address("host.localhost", false), "host.localhost");
}

TEST(TcpGroup, ARankThatIsGoneIsNamed) {
  in_ranks(2, [](RankGroup& group) {
    if (group.rank() == 1) return;
    EXPECT_THAT(error_of([&] { group.barrier(); }), HasSubstr("rank 1 ended"));
  });
}

/// The failure that each of three ranks hears of when rank 2 does `last`. A watch whose process
/// would end waits here instead.
template <class Last>
std::vector<RankFailure> failures(double silence_s, const Last& last) {
  std::vector<RankFailure> heard(3);
  std::vector<std::atomic<bool>> done(3);
  in_ranks(3, [&](RankGroup& group) {
    const auto own = static_cast<size_t>(group.rank());
    RankWatch watch(
        group, "127.0.0.1",
        [&, own](const RankFailure& failure) {
          if (!done[own]) heard[own] = failure;
          done[own] = true;
        },
        silence_s);
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
    RankWatch watch(
        group, "127.0.0.1",
        [&, own](const RankFailure& failure) {
          if (!done[own]) heard[own] = failure;
          done[own] = true;
        },
        20);
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
        [](const RankFailure& failure) { ADD_FAILURE() << failure.rank << failure.reason; }, 20);
    group.barrier();
    watch.leave();
  });
}

}  // namespace
}  // namespace whisker::test
