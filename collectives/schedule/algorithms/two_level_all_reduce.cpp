#include "collectives/schedule/algorithms/two_level_all_reduce.h"

#include <algorithm>
#include <optional>
#include <set>

#include "collectives/schedule/algorithms/cluster_shares.h"
#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

/// How many segments the gather among the hosts of a cluster stays behind the exchange, and that on a host
/// one more. Both go over the same ordered connections as the next segments' reduce-scatter; the lag keeps a
/// gather that waits for the slow link from holding up what will feed that link.
constexpr std::size_t kLag = 4;

class TwoLevelSum {
 public:
  TwoLevelSum(const RankMap& ranks, const Problem& problem, const Tuning& tuning, bool in_place)
      : ranks_(ranks),
        problem_(problem),
        compression_(ranks.clusters.size() > 1 ? problem.compression : Compression::kNone),
        builder_(in_place, 0, compression_) {
    std::size_t largest_cluster = 1;
    for (const auto& cluster : ranks.clusters) largest_cluster = std::max(largest_cluster, cluster.size());
    // Small segment sizes (tests) are taken as they are.
    const std::size_t least = std::min(kLeastShare, tuning.segment_bytes) * largest_cluster;
    const std::size_t most = std::min(tuning.segment_bytes, kMostShare * largest_cluster);
    segments_ = pieces_of(problem.count, problem.element_bytes, std::max(most, least));
    const Interval longest = part_of({0, problem.count}, 0, segments_);
    group_bytes_ = bytes(group(longest, 0));
    share_bytes_ = bytes(share(longest, cluster(), 0));
    encoded_share_bytes_ = encoded(share_bytes_);
  }

  Schedule build() {
    ScratchRing on_host(builder_, per_host() > 1 ? group_bytes_ : 0, 3 * (per_host() - 1));
    ScratchRing inside(builder_, hosts() > 1 ? share_bytes_ : 0, 3 * (hosts() - 1));
    const std::size_t others = ranks_.clusters.size() - 1;
    // Encoded, a cut is in memory both as it goes and as it comes.
    ScratchRing across(builder_, others > 0 ? encoded_share_bytes_ : 0,
                       (compressed() ? 2 : 1) * (others > 0 ? 2 * kLag : 0));
    for (std::size_t segment = 0; segment < segments_ + kLag + 1; ++segment) {
      if (segment < segments_) {
        const Interval whole = segment_of(segment), mine = group(whole, local());
        Piece source = reduce_among(host_mates(), whole, {Buffer::kInput, 0}, on_host);
        source = reduce_among(peers_on_hosts(), mine, source, inside);
        exchange(whole, source, across);
      }
      if (segment >= kLag && segment - kLag < segments_)
        gather_among(peers_on_hosts(), group(segment_of(segment - kLag), local()));
      if (segment > kLag) gather_among(host_mates(), segment_of(segment - kLag - 1));
    }
    return builder_.build(kTwoLevelAllReduce.name);
  }

 private:
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

  /// Cuts this rank's share at every cluster's borders; each cut has one owner per cluster, and those
  /// exchange.
  void exchange(Interval segment, Piece source, ScratchRing& slots) {
    const Interval own = share(segment, cluster(), index());
    std::set<std::size_t> borders{own.begin, own.end};
    for (std::size_t other = 0; other < ranks_.clusters.size(); ++other) {
      for (std::size_t member = 0; member < ranks_.clusters[other].size(); ++member) {
        const std::size_t border = share(segment, other, member).begin;
        if (border > own.begin && border < own.end) borders.insert(border);
      }
    }
    for (auto border = borders.begin(); std::next(border) != borders.end(); ++border) {
      const Interval cut{*border, *std::next(border)};
      std::vector<int> owners;
      for (std::size_t one = 0; one < ranks_.clusters.size(); ++one)
        owners.push_back(owner_of(segment, one, cut.begin));
      if (owners.size() == 2) {
        compressed() ? swap_encoded(cut, owners, source, slots) : swap(cut, owners, source, slots);
      } else {
        compressed() ? ring_encoded(cut, owners, source, slots) : ring(cut, owners, source, slots);
      }
    }
  }

  int owner_of(Interval segment, std::size_t cluster, std::size_t element) const {
    for (std::size_t member = 0; member < ranks_.clusters[cluster].size(); ++member) {
      const Interval part = share(segment, cluster, member);
      if (element >= part.begin && element < part.end) return ranks_.clusters[cluster][member];
    }
    return -1;  // unreachable: the shares cover the segment
  }

  void swap(Interval cut, const std::vector<int>& owners, Piece source, ScratchRing& slots) {
    const std::size_t at = cut.begin * problem_.element_bytes;
    const int other = owners[ranks_.cluster == 0 ? 1 : 0];
    const Piece arrived = slots.next();
    builder_.send(other, source + at, bytes(cut));
    builder_.receive(other, arrived, bytes(cut));
    // Both sides combine in the order of the clusters, so that both get the same bits.
    if (ranks_.cluster == 0) {
      builder_.combine(output(cut.begin), source + at, arrived, bytes(cut));
    } else {
      builder_.combine(output(cut.begin), arrived, source + at, bytes(cut));
    }
    if (problem_.average) builder_.divide(output(cut.begin), bytes(cut));
  }

  /// Exchanges among three or more clusters (also correct for one): a ring over the owners of this cut.
  void ring(Interval cut, const std::vector<int>& owners, Piece source, ScratchRing& slots) {
    const int n = static_cast<int>(owners.size()), p = ranks_.cluster;
    const auto shard = [&](int where) {
      return part_of(cut, static_cast<std::size_t>(((where % n) + n) % n), static_cast<std::size_t>(n));
    };
    const int next = owners[static_cast<std::size_t>((p + 1) % n)];
    const int previous = owners[static_cast<std::size_t>((p + n - 1) % n)];
    if (n == 1) {
      builder_.copy(output(cut.begin), source + cut.begin * problem_.element_bytes, bytes(cut));
      if (problem_.average) builder_.divide(output(cut.begin), bytes(cut));
      return;
    }
    for (int step = 0; step < n - 1; ++step) {
      const Interval out = shard(p - step), in = shard(p - step - 1);
      const Piece from = step == 0 ? source : Piece{Buffer::kOutput, 0};
      builder_.send(next, from + out.begin * problem_.element_bytes, bytes(out));
      const Piece arrived = slots.next();
      builder_.receive(previous, arrived, bytes(in));
      builder_.combine(output(in.begin), arrived, source + in.begin * problem_.element_bytes, bytes(in));
      if (problem_.average && step == n - 2) builder_.divide(output(in.begin), bytes(in));
    }
    for (int step = 0; step < n - 1; ++step) {
      const Interval out = shard(p + 1 - step), in = shard(p - step);
      builder_.send(next, output(out.begin), bytes(out));
      builder_.receive(previous, output(in.begin), bytes(in));
    }
  }

  bool compressed() const noexcept { return compression_ != Compression::kNone; }
  std::size_t encoded(std::size_t bytes) const noexcept {
    return compressed() ? encoded_bytes(compression_, bytes / sizeof(float)) : bytes;
  }
  /// Where the residual of an element is.
  std::optional<std::size_t> residual_of(std::size_t element) const {
    return problem_.residual ? std::optional(element) : std::nullopt;
  }

  /// As swap(), encoded. Each side takes its own sums as the other one gets them, so that both have the same
  /// bits.
  void swap_encoded(Interval cut, const std::vector<int>& owners, Piece source, ScratchRing& slots) {
    const int other = owners[ranks_.cluster == 0 ? 1 : 0];
    const Piece going = slots.next(), coming = slots.next(), sum = output(cut.begin);
    builder_.encode(going, source + cut.begin * problem_.element_bytes, bytes(cut), residual_of(cut.begin));
    builder_.send(other, going, encoded(bytes(cut)));
    builder_.receive(other, coming, encoded(bytes(cut)));
    builder_.decode(sum, ranks_.cluster == 0 ? going : coming, bytes(cut));
    builder_.decode_add(sum, ranks_.cluster == 0 ? coming : going, sum, bytes(cut));
    if (problem_.average) builder_.divide(sum, bytes(cut));
  }

  /// As ring(), encoded. Sums are encoded anew at each hop, and once more when they are complete; that form
  /// goes around, and all take it, its owner too. Each owner encodes each element once.
  void ring_encoded(Interval cut, const std::vector<int>& owners, Piece source, ScratchRing& slots) {
    const int n = static_cast<int>(owners.size()), p = ranks_.cluster;
    const auto shard = [&](int where) {
      return part_of(cut, static_cast<std::size_t>(((where % n) + n) % n), static_cast<std::size_t>(n));
    };
    const int next = owners[static_cast<std::size_t>((p + 1) % n)];
    const int previous = owners[static_cast<std::size_t>((p + n - 1) % n)];
    for (int step = 0; step < n - 1; ++step) {
      const Interval out = shard(p - step), in = shard(p - step - 1);
      const Piece from = step == 0 ? source : Piece{Buffer::kOutput, 0};
      const Piece going = slots.next(), coming = slots.next();
      builder_.encode(going, from + out.begin * problem_.element_bytes, bytes(out), residual_of(out.begin));
      builder_.send(next, going, encoded(bytes(out)));
      builder_.receive(previous, coming, encoded(bytes(in)));
      builder_.decode_add(output(in.begin), coming, source + in.begin * problem_.element_bytes, bytes(in));
      if (problem_.average && step == n - 2) builder_.divide(output(in.begin), bytes(in));
    }
    const Interval whole = shard(p + 1);
    Piece going = slots.next();
    builder_.encode(going, output(whole.begin), bytes(whole), residual_of(whole.begin));
    builder_.decode(output(whole.begin), going, bytes(whole));
    for (int step = 0; step < n - 1; ++step) {
      const Interval out = shard(p + 1 - step), in = shard(p - step);
      const Piece coming = slots.next();
      builder_.send(next, going, encoded(bytes(out)));
      builder_.receive(previous, coming, encoded(bytes(in)));
      builder_.decode(output(in.begin), coming, bytes(in));
      going = coming;
    }
  }

  const RankMap& ranks_;
  const Problem& problem_;
  Compression compression_;  // between clusters
  ScheduleBuilder builder_;
  std::size_t segments_ = 1;
  std::size_t group_bytes_ = 0, share_bytes_ = 0, encoded_share_bytes_ = 0;
};

bool two_level_all_reduce_applies(const RankMap& ranks, const Problem&, const Tuning&) {
  // Clusters are declared because what joins them is slower than what is inside. Where it is not slower, a
  // ring puts no more bytes on any NIC than two levels do.
  return ranks.clusters.size() > 1 && !ranks.uniform_links;
}

Schedule build_two_level_all_reduce(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                                    bool in_place) {
  return TwoLevelSum(ranks, problem, tuning, in_place).build();
}

}  // namespace

constinit const Algorithm kTwoLevelAllReduce{Collective::kAllReduce, "two-level",
                                             two_level_all_reduce_applies, build_two_level_all_reduce,
                                             "inside each cluster, then across"};

}  // namespace tombolo::collectives
