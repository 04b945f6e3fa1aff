// How a rank's part crosses to another cluster: in shares, one for each of that cluster's members, so that
// every byte goes over the slow link once and all NICs of both clusters take part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/schedule/collective.h"
#include "collectives/schedule/network_costs.h"
#include "collectives/schedule/partition.h"
#include "collectives/schedule/rank_map.h"
#include "collectives/schedule/tuning.h"

namespace tombolo::collectives {

/// Bytes: a share that crosses stays at least this large, or messages would cost more than bytes.
inline constexpr std::size_t kLeastShare = std::size_t{64} << 10;
/// A larger one saves no more of that, while the slow link waits for the first and all for the last: an
/// all-reduce of 16 MiB between two clusters of two ranks took 5 % longer with shares of twice that size.
inline constexpr std::size_t kMostShare = std::size_t{128} << 10;

/// The `applicable` of the algorithms of two levels. Clusters are declared because what joins them is slower
/// than what is inside; where it is not slower, a ring puts no more bytes on any NIC than two levels do.
inline bool clusters_are_far(const RankMap& ranks, const Problem&, const Tuning&) noexcept {
  return ranks.clusters.size() > 1 && !ranks.uniform_links;
}

inline std::string where_clusters_are_far(const RankMap&, const Tuning&) {
  return "ranks of several clusters, unless all use the same kind of NIC (TOMBOLO_ROUTING=shared)";
}

/// Of an all-gather or a reduce-scatter. Pure: all ranks get the same answers.
class ClusterShares {
 public:
  /// The arguments must outlive it.
  ClusterShares(const RankMap& ranks, const Problem& problem, const Tuning& tuning);

  /// Parts are dealt piece by piece: of how many pieces the longest has.
  std::size_t pieces() const noexcept { return pieces_; }
  /// Elements of that rank's part; none where it has fewer pieces.
  Interval piece(int rank, std::size_t index) const noexcept;
  /// Of such a piece, the elements that this member of a cluster, which is not the rank's, carries; often
  /// none, since a share is not made smaller than messages are worth.
  Interval share(int rank, std::size_t index, std::size_t cluster, std::size_t member) const noexcept;
  /// What a member of this rank's cluster contributes to a round that goes around the cluster, or gets the
  /// sum of there: its share of such a piece of that rank's part, or of its own part the piece itself where
  /// `rank` is negative.
  struct Item {
    int rank;
    Interval elements;
  };
  Item item(std::size_t index, int rank, std::size_t member) const noexcept;
  /// The ranks of a cluster, in the order in which shares of their parts should go around a ring of another
  /// one's members, a round each: the next rank's shares begin with the next member, so that in the other
  /// order all rounds under way would have their shares at the same members at the same time.
  std::vector<int> from_last_to_first(std::size_t cluster) const {
    return {ranks_.clusters[cluster].rbegin(), ranks_.clusters[cluster].rend()};
  }
  /// Into how many shares a piece is cut for the members of that cluster, at most.
  std::size_t most_shares(std::size_t cluster) const noexcept {
    return shares_of(longest_piece_, ranks_.clusters[cluster].size());
  }
  /// Elements of the longest piece, and of the longest share.
  std::size_t longest_piece() const noexcept { return longest_piece_; }
  std::size_t longest_share() const noexcept { return longest_share_; }

 private:
  /// Into how many shares a piece of so many elements is cut for so many members.
  std::size_t shares_of(std::size_t elements, std::size_t members) const noexcept;

  const RankMap& ranks_;
  const Problem& problem_;
  std::size_t least_share_, piece_bytes_ = 0;                       // bytes
  std::vector<std::size_t> index_in_cluster_;                       // by rank
  std::size_t pieces_ = 1, longest_piece_ = 0, longest_share_ = 0;  // elements
};

/// What an all-gather or a reduce-scatter of two levels costs: every part, or its shares, goes from one
/// member of a cluster to the next by a message, and over the slow link once, `crossing` bytes in all.
/// `work`: of a rank's memory.
Nanoseconds cost_of_shares(const JobCosts& job, std::uint64_t part, std::uint64_t crossing, Nanoseconds work,
                           const Tuning& tuning) noexcept;

}  // namespace tombolo::collectives
