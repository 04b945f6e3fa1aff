#include "collectives/schedule/algorithms/two_level/two_level_all_reduce.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "collectives/schedule/algorithms/rounds.h"
#include "collectives/schedule/algorithms/two_level/cluster_exchange.h"
#include "collectives/schedule/algorithms/two_level/cluster_grid.h"
#include "collectives/schedule/algorithms/two_level/cluster_shares.h"
#include "collectives/schedule/algorithms/two_level/member_exchange.h"
#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

/// How many segments the gather among the hosts of a cluster stays behind the last step of the exchange, and
/// that on a host one more, at least, for each round among the hosts. Both go over the same ordered
/// connections as the next segments' reduce-scatter; the lag keeps a gather that waits for the slow link from
/// holding up what will feed that link. Each round waits for a rank's processor, which has the next segments
/// to copy.
constexpr std::size_t kLeastLag = 4;
/// So many segments are on their way between clusters, at most.
constexpr std::size_t kMostCrossing = 64;
/// Large clusters take longer segments, lest messages cost more than bytes, but not fewer than so many: the
/// first one's way through all stages, and the last one's, would count for more.
constexpr std::size_t kEnoughSegments = 32;

/// Bytes of a segment of a vector of so many: of which the least share of a rank of the largest cluster, or
/// the mean of the `messages` that a rank sends for it, has kLeastShare, since what they send is about twice
/// the segment. Pure.
std::size_t segment_bytes(std::size_t vector, std::size_t messages, std::size_t largest_cluster,
                          const Tuning& tuning) {
  // Small segment sizes (tests) are taken as they are.
  const std::size_t share = std::min(kLeastShare, tuning.segment_bytes);
  const std::size_t least =
      std::clamp(vector / kEnoughSegments, share * std::min(largest_cluster, (messages + 1) / 2),
                 share * largest_cluster);
  return std::max(least, std::min(tuning.segment_bytes, kMostShare * largest_cluster));
}

class TwoLevelSum {
 public:
  TwoLevelSum(const RankMap& ranks, const Problem& problem, const Tuning& tuning, bool in_place)
      : ranks_(ranks),
        problem_(problem),
        compression_(ranks.clusters.size() > 1 ? problem.compression : Compression::kNone),
        one_way_(ClusterExchange::is_quicker_one_way(ranks, problem, compression_, tuning)),
        builder_(problem, in_place, 0, compression_),
        members_(builder_, problem) {
    std::size_t largest_cluster = 1;
    for (std::size_t cluster = 0; cluster < ranks.clusters.size(); ++cluster) {
      grids_.emplace_back(ranks, cluster);
      largest_cluster = std::max(largest_cluster, ranks.clusters[cluster].size());
    }
    segments_ = pieces_of(problem.count, problem.element_bytes,
                          segment_bytes(problem.bytes(), messages_of_a_segment(), largest_cluster, tuning));
    const Interval longest = part_of({0, problem.count}, 0, segments_);
    group_bytes_ = bytes(grid().group(longest, 0));
    share_bytes_ = bytes(grid().share(longest, 0));
    crossing_ = crossing_segments(tuning);
  }

  Schedule build() {
    const std::size_t mates = grid().ranks_of(grid().row_of(index())) - 1, peers = grid().rows() - 1;
    ScratchRing on_host(builder_, mates > 0 ? group_bytes_ : 0, places_on_host(mates));
    ScratchRing inside(builder_, peers > 0 && !is_spare() ? share_bytes_ : 0, 3 * peers);
    std::vector<std::vector<ClusterExchange::Cut>> cuts;
    std::size_t most_cuts = 1;
    for (std::size_t segment = 0; segment < segments_; ++segment) {
      cuts.push_back(cuts_of(segment_of(segment)));
      most_cuts = std::max(most_cuts, cuts.back().size());
    }
    ClusterExchange exchange(builder_, problem_, compression_, ranks_,
                             {most_cuts, share_bytes_ / problem_.element_bytes, crossing_, one_way_});
    // A step waits for what the one before it brings, and holds up all that is sent after it.
    const std::size_t steps = exchange.steps(),
                      lag = (steps - 1) * crossing_ + std::max(kLeastLag * most_rounds(), crossing_);
    for (std::size_t turn = 0; turn < segments_ + lag + 1; ++turn) {
      if (turn < segments_) {
        const Piece source = reduce_inside(segment_of(turn), on_host, inside);
        for (ClusterExchange::Cut& cut : cuts[turn]) cut.source = source;
      }
      for (std::size_t step = 0; step < steps && step * crossing_ <= turn; ++step) {
        const std::size_t segment = turn - step * crossing_;
        if (segment >= segments_) continue;
        for (ClusterExchange::Cut& cut : cuts[segment]) exchange.take_step(cut, step);
      }
      if (turn >= lag && turn - lag < segments_ && !is_spare())
        members_.gather(column(), group(segment_of(turn - lag)));
      if (turn > lag) members_.gather_on_host(grid(), index(), segment_of(turn - lag - 1));
    }
    return builder_.build(kTwoLevelAllReduce.name);
  }

 private:
  /// How many segments fill the link between two clusters, and one that is at either end. The same on every
  /// rank. Those that the largest cluster's ranks need if each has that link for itself, unless so many would
  /// leave an eighth of all and more than if they share it: what is inside the clusters would wait for them.
  std::size_t crossing_segments(const Tuning& tuning) const {
    std::size_t largest = 1;
    for (const auto& cluster : ranks_.clusters) largest = std::max(largest, cluster.size());
    const auto filling = [&](std::size_t elements) {
      const std::size_t bytes = compression_ == Compression::kNone ? elements * problem_.element_bytes
                                                                   : encoded_bytes(compression_, elements);
      return 1 + tuning.crossing_bytes / std::max<std::size_t>(1, bytes);
    };
    const std::size_t segment = problem_.count / segments_;
    const std::size_t most = std::max(filling(segment), segments_ / 8);
    return std::clamp<std::size_t>(filling(segment / largest), 1, std::min({kMostCrossing, segments_, most}));
  }
  std::size_t bytes(Interval interval) const noexcept { return interval.count() * problem_.element_bytes; }
  Piece input(std::size_t element) const noexcept {
    return Piece{Buffer::kInput, 0} + element * problem_.element_bytes;
  }
  Piece output(std::size_t element) const noexcept {
    return Piece{Buffer::kOutput, 0} + element * problem_.element_bytes;
  }
  std::size_t cluster() const noexcept { return static_cast<std::size_t>(ranks_.cluster); }
  std::size_t index() const noexcept { return static_cast<std::size_t>(ranks_.index); }
  Interval segment_of(std::size_t index) const noexcept {
    return part_of({0, problem_.count}, index, segments_);
  }

  // The ranks of a host sum up a group of a segment for each column of the grid, and those of a column a
  // share of their group for each host: so each byte leaves a host once.
  const ClusterGrid& grid() const { return grids_[cluster()]; }
  bool is_spare() const { return grid().is_spare(index()); }
  Interval group(Interval segment) const { return grid().group(segment, grid().place_of(index())); }
  /// The ranks of this one's column.
  MemberExchange::Sharers column() const {
    MemberExchange::Sharers all{{}, grid().row_of(index())};
    for (std::size_t row = 0; row < grid().rows(); ++row)
      all.ranks.push_back(grid().rank_at(row, grid().place_of(index())));
    return all;
  }
  Piece reduce_inside(Interval segment, ScratchRing& on_host, ScratchRing& inside) {
    const Piece source = members_.reduce_on_host(grid(), index(), segment, {Buffer::kInput, 0}, on_host);
    return is_spare() ? source : members_.reduce(column(), group(segment), source, inside);
  }
  /// How many parts of ranks of the own host may have come before they are summed up: those of three
  /// segments, or of one where there are many, lest all else that comes wait behind too many of them.
  static std::size_t places_on_host(std::size_t mates) {
    constexpr std::size_t kTurns = 3, kEnough = 9;
    return std::min(kTurns * mates, std::max(mates, kEnough));
  }
  /// Among the hosts of any cluster, at least 1.
  std::size_t most_rounds() const {
    std::size_t most = 1;
    for (const ClusterGrid& one : grids_) most = std::max(most, rounds_among(one.rows()));
    return most;
  }
  /// The most that a rank sends.
  std::size_t messages_of_a_segment() const {
    std::size_t most = 0;
    for (const ClusterGrid& one : grids_) {
      for (std::size_t row = 0; row < one.rows(); ++row)
        most = std::max(most, 2 * (one.ranks_of(row) - 1 + messages_among(one.rows())));
    }
    return most + ClusterExchange::steps_of(grids_.size(), one_way_) * (grids_.size() - 1);
  }

  /// This rank's share of a segment, cut at every cluster's borders: each cut has one owner per cluster.
  std::vector<ClusterExchange::Cut> cuts_of(Interval segment) const {
    const Interval own = grid().share(segment, index());
    std::set<std::size_t> borders{own.begin, own.end};
    for (std::size_t other = 0; other < ranks_.clusters.size(); ++other) {
      for (std::size_t member = 0; member < ranks_.clusters[other].size(); ++member) {
        const std::size_t border = grids_[other].share(segment, member).begin;
        if (border > own.begin && border < own.end) borders.insert(border);
      }
    }
    std::vector<ClusterExchange::Cut> cuts;
    for (auto border = borders.begin(); std::next(border) != borders.end(); ++border) {
      ClusterExchange::Cut cut{{*border, *std::next(border)}, {}, {}};
      for (std::size_t one = 0; one < ranks_.clusters.size(); ++one)
        cut.owners.push_back(owner_of(segment, one, *border));
      cuts.push_back(std::move(cut));
    }
    return cuts;
  }

  int owner_of(Interval segment, std::size_t cluster, std::size_t element) const {
    for (std::size_t member = 0; member < ranks_.clusters[cluster].size(); ++member) {
      const Interval part = grids_[cluster].share(segment, member);
      if (element >= part.begin && element < part.end) return ranks_.clusters[cluster][member];
    }
    return -1;  // unreachable: the shares cover the segment
  }

  const RankMap& ranks_;
  const Problem& problem_;
  Compression compression_;  // between clusters
  bool one_way_;             // between clusters
  ScheduleBuilder builder_;
  MemberExchange members_;
  std::vector<ClusterGrid> grids_;  // by cluster
  std::size_t segments_ = 1;
  std::size_t group_bytes_ = 0, share_bytes_ = 0;
  std::size_t crossing_ = 1;  // segments
};

Schedule build_two_level_all_reduce(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                                    bool in_place) {
  return TwoLevelSum(ranks, problem, tuning, in_place).build();
}

/// A segment passes its stages one after the other, and the next ones follow it as fast as what they wait for
/// most: a rank's processor and memory, a host's NIC, or a cluster's uplink.
Nanoseconds cost_of_two_level_all_reduce(const JobCosts& job, const Problem& problem, const Tuning& tuning) {
  const std::uint64_t per_host = job.per_host(), hosts = job.hosts(), clusters = job.clusters();
  // As ClusterExchange::is_quicker_one_way() with equal shares.
  const bool one_way =
      clusters <= 2 || problem.bytes() / clusters * (clusters - 2) * (clusters - 1) < tuning.latency_bytes;
  const std::uint64_t steps = clusters == 1 ? 0 : ClusterExchange::steps_of(clusters, one_way);
  const std::uint64_t among_hosts = messages_among(hosts), rounds = rounds_among(hosts);
  const std::uint64_t messages = 2 * (per_host - 1 + among_hosts) + steps * (clusters - 1);
  const std::uint64_t longest = segment_bytes(problem.bytes(), messages, job.largest(), tuning);
  const std::uint64_t segments = std::max<std::uint64_t>(1, (problem.bytes() + longest - 1) / longest);
  const std::uint64_t segment = problem.bytes() / segments, group = segment / per_host, share = group / hosts;
  const std::uint64_t to_mates = segment - group, to_hosts = group - share;  // bytes that a rank sends
  const std::uint64_t crossing = (clusters - 1) * (one_way ? segment : 2 * (segment / clusters));
  const Nanoseconds posts = job.messages(messages);
  const std::uint64_t terms = one_way ? clusters - 1 : 1;
  const Nanoseconds sums = job.memory(to_mates + to_hosts + (clusters > 1 ? terms * share : 0));
  const Nanoseconds copies = 2 * job.wire(Level::kHost, to_mates);
  const Nanoseconds nic = 2 * job.wire(Level::kCluster, per_host * to_hosts);
  const Nanoseconds uplink = job.wire(Level::kBetween, crossing);
  const Nanoseconds latencies = (per_host > 1 ? 2 * (job.latency(Level::kHost) + job.messages(1)) : 0) +
                                2 * rounds * (job.latency(Level::kCluster) + job.messages(1)) +
                                steps * (job.latency(Level::kBetween) + job.messages(1));
  return latencies + posts + sums + copies + nic + uplink +
         (segments - 1) * std::max({posts + sums + copies, nic, uplink});
}

}  // namespace

constinit const Algorithm kTwoLevelAllReduce{.collective = Collective::kAllReduce,
                                             .name = "two-level",
                                             .applicable = clusters_are_far,
                                             .build = build_two_level_all_reduce,
                                             .help = "inside each cluster, then across",
                                             .rule = where_clusters_are_far,
                                             .in_pieces = true,
                                             .cost = cost_of_two_level_all_reduce};

}  // namespace tombolo::collectives
