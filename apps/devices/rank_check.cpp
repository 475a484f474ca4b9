#include "apps/devices/rank_check.h"

#include "core/backend/backend.h"
#include "core/communicator/rank_environment.h"
#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/hash.h"
#include "core/io/text_table.h"
#include "core/nvidia/cuda_library.h"
#include "core/nvidia/nvml.h"
#include "core/ops/ops.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace whisker {
namespace {

constexpr double allowed_error = 1e-5;

// "host\tdevice\tname\tbus".
std::string describe(Device device) {
  const bool gpu = device.kind == DeviceKind::cuda;
  const CudaGpu card = gpu ? cuda_gpu(device) : CudaGpu();
  return fmt::format("{}\t{}\t{}\t{}", host_name(), device, card.name, card.bus_id);
}

CheckedRank parse(const std::string& text) {
  std::vector<std::string> parts = {""};
  for (const char c : text) {
    if (c == '\t') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  parts.resize(4);
  return {.host = parts[0], .device = parts[1], .name = parts[2], .bus_id = parts[3]};
}

// Links as this rank's driver sees them: those of its host.
std::vector<RankLink> links_of(const std::vector<CheckedRank>& ranks, const std::string& own_host) {
  std::unique_ptr<Nvml> nvml;
  try {
    if (!ranks[0].bus_id.empty()) nvml = std::make_unique<Nvml>();
  } catch (const Error&) {  // the links are not known then
  }
  std::vector<RankLink> links;
  for (int from = 0; from < std::ssize(ranks); ++from) {
    for (int to = from + 1; to < std::ssize(ranks); ++to) {
      const CheckedRank &a = ranks[static_cast<size_t>(from)], &b = ranks[static_cast<size_t>(to)];
      RankLink link{.from = from, .to = to, .link = "", .transport = "network"};
      if (a.host == b.host) link.transport = "host memory";
      if (a.host == b.host && a.host == own_host && nvml) {
        const GpuLink found = nvml->link(a.bus_id, b.bus_id);
        link.link = found.name;
        if (found.peer_to_peer) link.transport = "peer to peer";
      }
      links.push_back(link);
    }
  }
  return links;
}

Tensor values_of(int rank, int64_t count) {
  return rand_normal({count}, 0, 1, 1, static_cast<uint64_t>(rank), {.device = cpu_device});
}

double fastest(Communicator& ranks, const Tensor& tensor) {
  Backend& backend = backend_of(tensor.device());
  constexpr int rounds = 20;
  constexpr double enough_s = 1;  // slow links take no more rounds
  const auto begin = std::chrono::steady_clock::now();
  double seconds = std::numeric_limits<double>::infinity();
  for (int round = 0; round < rounds; ++round) {
    backend.synchronize();
    ranks.group().barrier();
    double taken = 0;
    if (const auto clock = backend.make_clock()) {
      clock->mark();
      ranks.all_reduce(tensor);
      clock->mark();
      taken = clock->read()[1] / 1000;
    } else {
      const auto start = std::chrono::steady_clock::now();
      ranks.all_reduce(tensor);
      taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    struct Round {
      double taken, elapsed;
    };
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    const std::vector<Round> all = ranks.group().gather(Round{taken, elapsed.count()});
    if (round == 0) continue;  // the first one prepares
    seconds = std::min(seconds, std::ranges::max(all, {}, &Round::taken).taken);
    if (all[0].elapsed > enough_s) break;  // for all ranks alike
  }
  return seconds;
}

ReduceTiming time_reduce(Communicator& ranks, Device device, int64_t count) {
  const Tensor tensor = values_of(ranks.rank(), count).to(device);
  ranks.all_reduce(tensor);
  const Tensor sums = tensor.to(cpu_device);
  std::vector<double> want(static_cast<size_t>(count));
  for (int rank = 0; rank < ranks.world(); ++rank) {
    const Tensor values = values_of(rank, count);
    std::ranges::transform(want, values.data<const float>(), want.begin(), std::plus<double>());
  }
  double scale = 0, difference = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double here = std::fabs(double{sums.data<const float>()[i]} - want[i]);
    scale = std::max(scale, std::fabs(want[i]));
    difference =
        std::isnan(here) ? std::numeric_limits<double>::infinity() : std::max(difference, here);
  }
  Hash64 hash;
  hash.update(std::as_bytes(sums.data<const float>()));
  tensor.fill_(0);  // stays finite however often it is added up
  return {.bytes = tensor.bytes(),
          .seconds = fastest(ranks, tensor),
          .error = std::ranges::max(ranks.group().gather(difference / scale)),
          .hashes = ranks.group().gather(hash.value())};
}

}  // namespace

bool ReduceTiming::same() const {
  return std::ranges::all_of(hashes, [&](uint64_t hash) { return hash == hashes[0]; });
}

double ReduceTiming::bus_bandwidth() const {
  const auto ranks = static_cast<double>(hashes.size());
  return static_cast<double>(bytes) / seconds * 2 * (ranks - 1) / ranks;
}

RankCheck check_ranks(Communicator& ranks, Device device) {
  RankCheck check;
  check.library = ranks.description();
  for (const std::string& text : ranks.group().all_gather(describe(device))) {
    check.ranks.push_back(parse(text));
  }
  check.links = links_of(check.ranks, check.ranks[static_cast<size_t>(ranks.rank())].host);
  constexpr int64_t smallest = 1 << 10;  // elements
  const int64_t largest = device.kind == DeviceKind::cuda ? 1 << 26 : 1 << 22;
  for (int64_t count = smallest; count <= largest; count *= 16) {
    check.reduces.push_back(time_reduce(ranks, device, count));
  }
  return check;
}

std::string to_text(const RankCheck& check) {
  std::string text =
      fmt::format("{}, {}\n", counted(std::ssize(check.ranks), "rank"), check.library);
  TextTable places({"rank", "host", "device", "GPU"});
  for (size_t i = 0; i < check.ranks.size(); ++i) {
    const CheckedRank& rank = check.ranks[i];
    places.add({fmt::format("{}", i), rank.host, rank.device,
                rank.name.empty() ? "" : fmt::format("{}, {}", rank.name, rank.bus_id)});
  }
  text += places.str("  ");
  TextTable links({"ranks", "link", "transport"});
  for (const RankLink& link : check.links) {
    links.add({fmt::format("{}, {}", link.from, link.to), link.link.empty() ? "-" : link.link,
               link.transport});
  }
  text += links.str("  ");
  TextTable sums({"all-reduce of f32", ">ms", ">GB/s", ">bus GB/s", "largest error", "verdict"});
  for (const ReduceTiming& one : check.reduces) {
    sums.add({fmt::format("{} KiB", one.bytes >> 10), fmt::format("{:.3f}", one.seconds * 1e3),
              fmt::format("{:.2f}", static_cast<double>(one.bytes) / one.seconds / 1e9),
              fmt::format("{:.2f}", one.bus_bandwidth() / 1e9), fmt::format("{:.1e}", one.error),
              one.error > allowed_error ? "WRONG"
              : one.same()              ? "same on all ranks"
                                        : "DIFFERENT"});
  }
  return text + sums.str("  ");
}

void write(JsonWriter& json, const RankCheck& check) {
  json.field("library", check.library);
  json.list("ranks", check.ranks, [&](const CheckedRank& rank) {
    json.begin_object().field("host", rank.host).field("device", rank.device);
    json.field("gpu", rank.name).field("bus_id", rank.bus_id).end_object();
  });
  json.list("links", check.links, [&](const RankLink& link) {
    json.begin_object().field("from", link.from).field("to", link.to);
    json.field("link", link.link).field("transport", link.transport).end_object();
  });
  json.list("all_reduces", check.reduces, [&](const ReduceTiming& one) {
    json.begin_object().field("bytes", one.bytes).field("seconds", one.seconds);
    json.field("bus_bytes_per_second", one.bus_bandwidth()).field("error", one.error);
    json.field("same_on_all_ranks", one.same()).end_object();
  });
}

void fail_unless_right(const RankCheck& check) {
  for (const ReduceTiming& one : check.reduces) {
    if (one.error <= allowed_error && one.same()) continue;
    fail(ErrorKind::device,
         "devices: {} adds up {} KiB of {} ranks {}: error {:.1e}, allowed {:.0e}. Try "
         "NCCL_P2P_DISABLE=1, which avoids the links between GPUs, and report what it changes.",
         check.library, one.bytes >> 10, check.ranks.size(),
         one.same() ? "wrongly" : "differently from rank to rank", one.error, allowed_error);
  }
}

}  // namespace whisker
