#include "collectives/schedule/algorithms/two_level/cluster_shares.h"

#include <algorithm>

namespace tombolo::collectives {
ClusterShares::ClusterShares(const RankMap& ranks, const Problem& problem, const Tuning& tuning)
    : ranks_(ranks), problem_(problem), least_share_(std::min(kLeastShare, tuning.segment_bytes)) {
  std::size_t largest_cluster = 1;
  index_in_cluster_.resize(static_cast<std::size_t>(ranks.size));
  for (const auto& cluster : ranks.clusters) {
    largest_cluster = std::max(largest_cluster, cluster.size());
    for (std::size_t i = 0; i < cluster.size(); ++i)
      index_in_cluster_[static_cast<std::size_t>(cluster[i])] = i;
  }
  // Small segment sizes (tests) are taken as they are.
  piece_bytes_ = std::max(std::min(tuning.segment_bytes, kMostShare * largest_cluster), least_share_);
  for (int rank = 0; rank < ranks.size; ++rank) {
    const std::size_t count = problem.count_of(rank);
    pieces_ = std::max(pieces_, pieces_of(count, problem.element_bytes, piece_bytes_));
    longest_piece_ = std::max(longest_piece_, piece(rank, 0).count());
  }
  // A longer piece may have shorter shares, of which it has more.
  for (int rank = 0; rank < ranks.size; ++rank) {
    for (std::size_t index = 0; index < pieces_; ++index) {
      const std::size_t elements = piece(rank, index).count();
      for (const auto& cluster : ranks.clusters)
        longest_share_ =
            std::max(longest_share_, part_of({0, elements}, 0, shares_of(elements, cluster.size())).count());
    }
  }
}

std::size_t ClusterShares::shares_of(std::size_t elements, std::size_t members) const noexcept {
  return std::clamp<std::size_t>(elements * problem_.element_bytes / least_share_, 1, members);
}

Interval ClusterShares::piece(int rank, std::size_t index) const noexcept {
  return piece_of(problem_.count_of(rank), problem_.element_bytes, piece_bytes_, index);
}

Interval ClusterShares::share(int rank, std::size_t index, std::size_t cluster,
                              std::size_t member) const noexcept {
  const Interval whole = piece(rank, index);
  const std::size_t members = ranks_.clusters[cluster].size();
  const std::size_t shares = shares_of(whole.count(), members);
  // Where there are fewer shares than members, ranks and pieces begin with different ones.
  const std::size_t first = (index_in_cluster_[static_cast<std::size_t>(rank)] + index * shares) % members;
  const std::size_t turn = (member + members - first) % members;
  return turn < shares ? part_of(whole, turn, shares) : Interval{whole.end, whole.end};
}

ClusterShares::Item ClusterShares::item(std::size_t index, int rank, std::size_t member) const noexcept {
  const auto own = static_cast<std::size_t>(ranks_.cluster);
  if (rank >= 0) return {rank, share(rank, index, own, member)};
  const int one = ranks_.clusters[own][member];
  return {one, piece(one, index)};
}

Nanoseconds cost_of_shares(const JobCosts& job, std::uint64_t part, std::uint64_t crossing, Nanoseconds work,
                           const Tuning& tuning) noexcept {
  const std::uint64_t members = job.largest(), others = job.ranks() - members;
  const std::uint64_t shares =
      std::clamp<std::uint64_t>(part / std::min(kLeastShare, tuning.segment_bytes), 1, members);
  // Each share passes all members but one, and each of these has as many as any other.
  const std::uint64_t messages =
      members > 1 ? others * shares * (members - 1) / members + members - 1 : others;
  const Nanoseconds posts = job.messages(2 * messages);
  const Nanoseconds ring = members > 1 ? job.wire(job.inside(), job.ranks() * part) : 0;
  const Nanoseconds uplink = job.wire(Level::kBetween, crossing);
  return (others > 0 ? job.latency(Level::kBetween) : 0) + job.around_cluster(part / shares) +
         std::max({posts + work, ring, uplink});
}

}  // namespace tombolo::collectives
