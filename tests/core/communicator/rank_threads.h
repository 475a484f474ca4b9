// Ranks as threads of this process.
#pragma once

#include "core/communicator/tcp_group.h"

#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace whisker::test {

inline int free_port() {
  return port_of(listen_at("127.0.0.1", 0));
}

inline RankEnvironment environment(int rank, int world, int port, std::string secret = "s") {
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

}  // namespace whisker::test
