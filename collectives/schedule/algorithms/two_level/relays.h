// How few bytes cross to other clusters: in few messages. For each rank of another cluster one member of a
// cluster is the relay, which gets from its fellow members, and sends as one message, all that the cluster
// has for that rank. So each rank hears from each other cluster once, and a slow link's latency counts once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/units.h"
#include "collectives/schedule/algorithms/two_level/cluster_shares.h"
#include "collectives/schedule/network_costs.h"
#include "collectives/schedule/rank_map.h"
#include "collectives/schedule/tuning.h"

namespace tombolo::collectives {

/// Pure: all ranks get the same answers. The map must outlive it.
class Relays {
 public:
  explicit Relays(const RankMap& ranks) noexcept : ranks_(ranks) {}

  const std::vector<int>& members() const { return ranks_.clusters[cluster()]; }
  std::size_t index() const noexcept { return static_cast<std::size_t>(ranks_.index); }

  /// The ranks of other clusters that this member of the own cluster is the relay for, from the next cluster
  /// on.
  std::vector<int> served_by(std::size_t member) const;
  /// Whom this rank hears from.
  struct Other {
    std::size_t cluster;
    int relay;  ///< a rank
  };
  /// One for each other cluster, from the one before on: messages come in about this order.
  std::vector<Other> heard() const;

 private:
  std::size_t cluster() const noexcept { return static_cast<std::size_t>(ranks_.cluster); }

  const RankMap& ranks_;
};

inline std::size_t largest_cluster(const RankMap& ranks) noexcept {
  std::size_t largest = 1;
  for (const auto& cluster : ranks.clusters) largest = std::max(largest, cluster.size());
  return largest;
}

/// Whether there is a slow link between ranks that a relay saves messages on.
inline bool relays_save(const RankMap& ranks) noexcept {
  return clusters_are_far(ranks, {}, {}) && largest_cluster(ranks) > 1;
}

/// How many bytes may cross to each member of another cluster where all of them get the same.
inline std::size_t few_for_each(const RankMap& ranks, const Tuning& tuning) noexcept {
  return relays_save(ranks) ? tuning.small_bytes / largest_cluster(ranks) : tuning.small_bytes;
}

/// The Algorithm::possible of those that relay: where they save messages, up to sizes at which a second way
/// inside the cluster costs more than any message.
inline bool relays_may_save(const RankMap& ranks, const Problem& problem) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  return relays_save(ranks) && problem.bytes_of_all(ranks.size) <= kMost;
}

/// What the two halves of a relayed call cost.
class RelayCosts {
 public:
  explicit RelayCosts(const JobCosts& job) noexcept : job_(job) {}

  /// How many ranks of other clusters a member is the relay for, at most.
  std::uint64_t served() const noexcept {
    return (job_.ranks() - job_.smallest() + job_.smallest() - 1) / job_.smallest();
  }
  /// Each member sends so many bytes to each other one.
  Nanoseconds inside(std::uint64_t bytes) const noexcept { return job_.one_to_cluster(bytes); }
  /// Each rank gets so many bytes from each other cluster.
  Nanoseconds across(std::uint64_t bytes) const noexcept {
    const std::uint64_t out = job_.ranks() - job_.smallest(), in = job_.largest() * (job_.clusters() - 1);
    return job_.hop(Level::kBetween, std::max(out, in) * bytes) + job_.messages(served());
  }

 private:
  const JobCosts& job_;
};

inline std::string where_relays_save(std::size_t bytes) {
  return fmt::format("at most {} in the parts of all ranks", format_size(bytes));
}

}  // namespace tombolo::collectives
