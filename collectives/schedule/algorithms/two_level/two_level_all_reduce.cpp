#include "collectives/schedule/algorithms/two_level/two_level_all_reduce.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "collectives/schedule/algorithms/two_level/cluster_exchange.h"
#include "collectives/schedule/algorithms/two_level/cluster_shares.h"
#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

/// How many segments the gather among the hosts of a cluster stays behind the last step of the exchange, and
/// that on a host one more, at least. Both go over the same ordered connections as the next segments'
/// reduce-scatter; the lag keeps a gather that waits for the slow link from holding up what will feed that
/// link.
constexpr std::size_t kLeastLag = 4;
/// So many segments are on their way between clusters, at most.
constexpr std::size_t kMostCrossing = 64;

class TwoLevelSum {
 public:
  TwoLevelSum(const RankMap& ranks, const Problem& problem, const Tuning& tuning, bool in_place)
      : ranks_(ranks),
        problem_(problem),
        compression_(ranks.clusters.size() > 1 ? problem.compression : Compression::kNone),
        builder_(problem, in_place, 0, compression_) {
    std::size_t largest_cluster = 1;
    for (const auto& cluster : ranks.clusters) largest_cluster = std::max(largest_cluster, cluster.size());
    // Small segment sizes (tests) are taken as they are.
    const std::size_t least = std::min(kLeastShare, tuning.segment_bytes) * largest_cluster;
    const std::size_t most = std::min(tuning.segment_bytes, kMostShare * largest_cluster);
    segments_ = pieces_of(problem.count, problem.element_bytes, std::max(most, least));
    const Interval longest = part_of({0, problem.count}, 0, segments_);
    group_bytes_ = bytes(group(longest, 0));
    share_bytes_ = bytes(share(longest, cluster(), 0));
    crossing_ = crossing_segments(tuning);
  }

  Schedule build() {
    ScratchRing on_host(builder_, per_host() > 1 ? group_bytes_ : 0, 3 * (per_host() - 1));
    ScratchRing inside(builder_, hosts() > 1 ? share_bytes_ : 0, 3 * (hosts() - 1));
    std::vector<std::vector<ClusterExchange::Cut>> cuts;
    std::size_t most_cuts = 1;
    for (std::size_t segment = 0; segment < segments_; ++segment) {
      cuts.push_back(cuts_of(segment_of(segment)));
      most_cuts = std::max(most_cuts, cuts.back().size());
    }
    ClusterExchange exchange(builder_, problem_, compression_, ranks_, most_cuts,
                             share_bytes_ / problem_.element_bytes, crossing_);
    // A step waits for what the one before it brings, and holds up all that is sent after it.
    const std::size_t steps = exchange.steps(),
                      lag = (steps - 1) * crossing_ + std::max(kLeastLag, crossing_);
    for (std::size_t turn = 0; turn < segments_ + lag + 1; ++turn) {
      if (turn < segments_) {
        const Interval whole = segment_of(turn), mine = group(whole, local());
        Piece source = reduce_among(host_mates(), whole, {Buffer::kInput, 0}, on_host);
        source = reduce_among(peers_on_hosts(), mine, source, inside);
        for (ClusterExchange::Cut& cut : cuts[turn]) cut.source = source;
      }
      for (std::size_t step = 0; step < steps && step * crossing_ <= turn; ++step) {
        const std::size_t segment = turn - step * crossing_;
        if (segment >= segments_) continue;
        for (ClusterExchange::Cut& cut : cuts[segment]) exchange.take_step(cut, step);
      }
      if (turn >= lag && turn - lag < segments_)
        gather_among(peers_on_hosts(), group(segment_of(turn - lag), local()));
      if (turn > lag) gather_among(host_mates(), segment_of(turn - lag - 1));
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
  const std::vector<int>& members() const {
    return ranks_.clusters[static_cast<std::size_t>(ranks_.cluster)];
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

  // The members of a cluster stand in rows, one for each host, and in as many columns as each host has ranks.
  // The ranks of a host sum up a part of a segment for each column, its *group*, and those of a column a
  // share of their group for each host: so each byte leaves a host once.
  std::size_t per_host() const { return ranks_.ranks_per_host[cluster()]; }
  std::size_t hosts() const { return members().size() / per_host(); }
  std::size_t local() const { return index() % per_host(); }
  Interval group(Interval segment, std::size_t column) const { return part_of(segment, column, per_host()); }
  /// What the member has the sum of inside its cluster.
  Interval share(Interval segment, std::size_t cluster, std::size_t member) const {
    const std::size_t columns = ranks_.ranks_per_host[cluster];
    return part_of(part_of(segment, member % columns, columns), member / columns,
                   ranks_.clusters[cluster].size() / columns);
  }

  /// Ranks that have a part of some interval each, in their order.
  struct Sharers {
    std::vector<int> ranks;
    std::size_t own = 0;  ///< this rank's place
    /// The others, starting after this one, so that not all send to the same one first.
    std::size_t after(std::size_t distance) const { return (own + distance) % ranks.size(); }
  };
  Sharers host_mates() const {
    const auto first = members().begin() + static_cast<std::ptrdiff_t>(index() - local());
    return {{first, first + static_cast<std::ptrdiff_t>(per_host())}, local()};
  }
  Sharers peers_on_hosts() const {
    Sharers all{{}, index() / per_host()};
    for (std::size_t host = 0; host < hosts(); ++host)
      all.ranks.push_back(members()[host * per_host() + local()]);
    return all;
  }

  /// Combines this rank's part of the interval over all. Returns a piece behind which the sums lie: that of
  /// the vector's element i is i elements after it. `source` is such a piece of what is combined.
  Piece reduce_among(const Sharers& all, Interval whole, Piece source, ScratchRing& slots) {
    const std::size_t n = all.ranks.size();
    const Interval own = part_of(whole, all.own, n);
    for (std::size_t distance = 1; distance < n; ++distance) {
      const std::size_t to = all.after(distance);
      const Interval theirs = part_of(whole, to, n);
      builder_.send(all.ranks[to], source + theirs.begin * problem_.element_bytes, bytes(theirs));
    }
    // In a fixed order, so that the bits do not depend on who arrives first.
    for (std::size_t distance = n - 1; distance >= 1; --distance) {
      const Piece arrived = slots.next();
      builder_.receive(all.ranks[all.after(distance)], arrived, bytes(own));
      builder_.combine(output(own.begin), source + own.begin * problem_.element_bytes, arrived, bytes(own));
      source = {Buffer::kOutput, 0};
    }
    return source;
  }

  /// Gives every part of the interval to all.
  void gather_among(const Sharers& all, Interval whole) {
    const std::size_t n = all.ranks.size();
    const Interval own = part_of(whole, all.own, n);
    for (std::size_t distance = 1; distance < n; ++distance)
      builder_.send(all.ranks[all.after(distance)], output(own.begin), bytes(own));
    for (std::size_t distance = n - 1; distance >= 1; --distance) {
      const std::size_t from = all.after(distance);
      const Interval theirs = part_of(whole, from, n);
      builder_.receive(all.ranks[from], output(theirs.begin), bytes(theirs));
    }
  }

  /// This rank's share of a segment, cut at every cluster's borders: each cut has one owner per cluster.
  std::vector<ClusterExchange::Cut> cuts_of(Interval segment) const {
    const Interval own = share(segment, cluster(), index());
    std::set<std::size_t> borders{own.begin, own.end};
    for (std::size_t other = 0; other < ranks_.clusters.size(); ++other) {
      for (std::size_t member = 0; member < ranks_.clusters[other].size(); ++member) {
        const std::size_t border = share(segment, other, member).begin;
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
      const Interval part = share(segment, cluster, member);
      if (element >= part.begin && element < part.end) return ranks_.clusters[cluster][member];
    }
    return -1;  // unreachable: the shares cover the segment
  }

  const RankMap& ranks_;
  const Problem& problem_;
  Compression compression_;  // between clusters
  ScheduleBuilder builder_;
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
  const std::uint64_t least = std::min(kLeastShare, tuning.segment_bytes) * job.largest(),
                      most = std::min<std::uint64_t>(tuning.segment_bytes, kMostShare * job.largest());
  const std::uint64_t segments =
      std::max<std::uint64_t>(1, (problem.bytes() + std::max(least, most) - 1) / std::max(least, most));
  const std::uint64_t segment = problem.bytes() / segments, group = segment / per_host, share = group / hosts;
  const std::uint64_t to_mates = segment - group, to_hosts = group - share;  // bytes that a rank sends
  const std::uint64_t steps = clusters == 1 ? 0 : clusters == 2 ? 1 : 2;
  const std::uint64_t crossing = clusters == 2 ? segment : steps * (clusters - 1) * (segment / clusters);
  const Nanoseconds posts = job.messages(2 * (per_host - 1 + hosts - 1) + steps * (clusters - 1));
  const Nanoseconds sums = job.memory(to_mates + to_hosts + (clusters > 1 ? share : 0));
  const Nanoseconds copies = 2 * job.wire(Level::kHost, to_mates);
  const Nanoseconds nic = 2 * job.wire(Level::kCluster, per_host * to_hosts);
  const Nanoseconds uplink = job.wire(Level::kBetween, crossing);
  const Nanoseconds latencies = (per_host > 1 ? 2 * (job.latency(Level::kHost) + job.messages(1)) : 0) +
                                (hosts > 1 ? 2 * (job.latency(Level::kCluster) + job.messages(1)) : 0) +
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
