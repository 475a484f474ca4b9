// Ranks as threads of this process: rendezvous, messages, and what keeps strangers out.
#include "core/communicator/tcp_group.h"

#include "core/communicator/greetings.h"
#include "tests/core/communicator/rank_threads.h"
#include "tests/support/error_of.h"

#include <chrono>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/socket.h>

namespace whisker::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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

/// `count` connections that say nothing; the last ones begin a message.
std::vector<FileDescriptor> silent_strangers(int port, int count) {
  std::vector<FileDescriptor> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(std::move(*connect_until("127.0.0.1", port, in_seconds(5))));
    const uint64_t size = 100;
    if (i > count / 2) ::send(all.back().get(), &size, static_cast<size_t>(i % 8), MSG_NOSIGNAL);
  }
  return all;
}

TEST(TcpGroup, SilentStrangersKeepNobodyWaiting) {
  const int port = free_port();
  const auto begin = std::chrono::steady_clock::now();
  std::jthread guest([&] {
    const std::vector<FileDescriptor> strangers = silent_strangers(port, 60);
    TcpGroup group(environment(1, 2, port), 20);
    group.barrier();
  });
  TcpGroup group(environment(0, 2, port), 20);
  group.barrier();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
}

TEST(Greetings, AreReadSideBySideAndInParts) {
  const FileDescriptor listener = listen_at("127.0.0.1", 0);
  const int port = port_of(listener);
  constexpr double patience_s = 0.2;
  Greetings greetings(listener, 10, patience_s);
  const std::vector<FileDescriptor> strangers = silent_strangers(port, 9);
  const auto slow = connect_until("127.0.0.1", port, in_seconds(5));
  const uint64_t size = 5;
  std::string framed(reinterpret_cast<const char*>(&size), sizeof size);
  framed += "helloafter";
  ::send(slow->get(), framed.data(), 10, MSG_NOSIGNAL);
  EXPECT_FALSE(greetings.next(in_seconds(0.05)));
  const auto greedy = connect_until("127.0.0.1", port, in_seconds(5));
  send_message(*greedy, "more than ten bytes");
  ::send(slow->get(), framed.data() + 10, framed.size() - 10, MSG_NOSIGNAL);
  const auto guest = greetings.next(in_seconds(5));
  ASSERT_TRUE(guest);
  EXPECT_EQ(guest->greeting, "hello");
  char rest[8] = {};
  EXPECT_EQ(::recv(guest->socket.get(), rest, sizeof rest, 0), 5) << "what follows stays there";
  EXPECT_FALSE(greetings.next(in_seconds(2 * patience_s)));
  char none = 0;
  EXPECT_EQ(::recv(strangers[0].get(), &none, 1, 0), 0) << "closed";
}

}  // namespace
}  // namespace whisker::test
