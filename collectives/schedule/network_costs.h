// What messages of a job cost, by what joins their ranks: the figures of the cost model. Algorithms say in
// these terms how long they take (Algorithm::cost), and the choice takes the one that takes least.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "collectives/schedule/rank_map.h"
#include "collectives/schedule/tuning.h"

namespace tombolo::collectives {

/// What joins ranks, from near to far.
enum class Level : std::uint8_t {
  kHost,     ///< ranks of one host
  kCluster,  ///< hosts of one cluster
  kBetween,  ///< clusters
};
inline constexpr std::size_t kLevels = 3;

/// "inside-hosts", "inside-clusters", "between-clusters"
std::string_view level_name(Level level) noexcept;

/// Whole numbers, since every rank must come to the same sums, whatever its processor and compiler.
using Nanoseconds = std::uint64_t;

struct LinkCost {
  Nanoseconds latency = 0;    ///< until the first byte has arrived, one way
  std::uint64_t byte_ps = 0;  ///< picoseconds for each byte, between two ranks that have it for themselves

  /// Both above 0.
  static LinkCost of(double latency_seconds, double bytes_per_second) noexcept;

  bool operator==(const LinkCost&) const = default;
};

struct NetworkCosts {
  /// By level. Inside hosts 1 us and 10 GB/s are typical, as what follows is; none was fitted.
  std::array<LinkCost, kLevels> levels{LinkCost{1000, 100}};
  /// Of a rank's processor, for each message that it sends or receives. A TCP message of no size takes about
  /// 2 us of system calls at either end.
  Nanoseconds message = 2000;
  std::uint64_t memory_byte_ps = 100;  ///< for each byte that a rank combines or copies: 10 GB/s
  /// Picoseconds for each byte that leaves or reaches a cluster, of all its ranks together; 0: nobody knows,
  /// and it has what two ranks have.
  std::uint64_t uplink_byte_ps = 0;

  /// At most 0: nobody knows.
  void set_uplink(double bytes_per_second) noexcept;

  bool operator==(const NetworkCosts&) const = default;
};

/// The terms in which algorithms say what they cost in a job. All of it is the same on every rank. Bytes that
/// leave a host or a cluster go one after the other: its ranks share one NIC, or one uplink.
class JobCosts {
 public:
  JobCosts(const RankMap& ranks, const NetworkCosts& network);

  std::uint64_t ranks() const noexcept { return ranks_; }
  /// Those whose links are slower than what is inside: 1 where nothing is far.
  std::uint64_t clusters() const noexcept { return clusters_; }
  /// Ranks of the largest and of the smallest of them.
  std::uint64_t largest() const noexcept { return largest_; }
  std::uint64_t smallest() const noexcept { return smallest_; }
  /// Ranks on each host, and hosts of the largest cluster; a rank counts as a host where hosts differ.
  std::uint64_t per_host() const noexcept { return per_host_; }
  std::uint64_t hosts() const noexcept { return (largest_ + per_host_ - 1) / per_host_; }
  /// What joins the ranks of a cluster that are farthest from each other, and those of the job.
  Level inside() const noexcept { return hosts() > 1 ? Level::kCluster : Level::kHost; }
  Level farthest() const noexcept { return clusters_ > 1 ? Level::kBetween : inside(); }

  Nanoseconds latency(Level level) const noexcept { return link(level).latency; }
  Nanoseconds messages(std::uint64_t count) const noexcept { return count * network_.message; }
  /// The time for which such bytes, of all ranks of a host or a cluster, occupy what leads out of it.
  Nanoseconds wire(Level level, std::uint64_t bytes) const noexcept {
    const bool uplink = level == Level::kBetween && network_.uplink_byte_ps > 0;
    return scaled(bytes, uplink ? network_.uplink_byte_ps : link(level).byte_ps);
  }
  Nanoseconds memory(std::uint64_t bytes) const noexcept { return scaled(bytes, network_.memory_byte_ps); }
  /// The bytes that are on their way while a link is full.
  std::uint64_t filling(Level level) const noexcept {
    return link(level).latency * 1000 / std::max<std::uint64_t>(link(level).byte_ps, 1);
  }
  /// A message that meets no other, from its post until it is there.
  Nanoseconds hop(Level level, std::uint64_t bytes) const noexcept {
    return latency(level) + messages(2) + scaled(bytes, link(level).byte_ps);
  }
  /// A message that goes from rank to rank once around all, or around the largest cluster, at each of which
  /// it takes `work` more.
  Nanoseconds around(std::uint64_t bytes, Nanoseconds work = 0) const noexcept;
  Nanoseconds around_cluster(std::uint64_t bytes, Nanoseconds work = 0) const noexcept;
  /// The slowest link of such a way.
  Nanoseconds slowest_wire(std::uint64_t bytes) const noexcept {
    return scaled(bytes, link(farthest()).byte_ps);
  }
  /// Each rank sends so many bytes to each other one of the job, or of its cluster, all at once.
  Nanoseconds one_to_all(std::uint64_t bytes) const noexcept;
  Nanoseconds one_to_cluster(std::uint64_t bytes) const noexcept;
  /// So many rounds in which each rank of a cluster has a message for one at a distance of 1, 2, 4 and so on,
  /// in order of their hosts; `work` after each.
  Nanoseconds rounds(std::uint64_t count, std::uint64_t bytes, Nanoseconds work = 0) const noexcept;

 private:
  const LinkCost& link(Level level) const noexcept {
    return network_.levels[static_cast<std::size_t>(level)];
  }
  static Nanoseconds scaled(std::uint64_t bytes, std::uint64_t ps) noexcept {
    return bytes / 1000 * ps + bytes % 1000 * ps / 1000;
  }

  NetworkCosts network_;
  std::uint64_t ranks_ = 1, clusters_ = 1, largest_ = 1, smallest_ = 1, per_host_ = 1, all_hosts_ = 1;
};

/// Sets what depends on the links between clusters, Tuning::crossing_bytes and latency_bytes. `known`: the
/// job's costs, or null where nobody knows rates and latencies.
void tune_to_links(Tuning& tuning, const RankMap& ranks, const JobCosts* known) noexcept;

/// How many rounds a tree over so many ranks has, at least 1: the logarithm to base 2, rounded up.
constexpr std::uint64_t tree_rounds(std::uint64_t ranks) noexcept {
  return static_cast<std::uint64_t>(std::bit_width(ranks - 1));
}

}  // namespace tombolo::collectives
