#include "collectives/schedule/algorithms/two_level_all_reduce.h"

#include <algorithm>
#include <optional>
#include <set>

#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

/// How many segments the gather inside the cluster stays behind the exchange. Both go over the same ordered
/// connections as the next segments' reduce-scatter; the lag keeps a gather that waits for the slow link from
/// holding up what will feed that link.
constexpr std::size_t kLag = 4;
/// A member's share of a segment stays at least this large, or messages would cost more than bytes.
constexpr std::size_t kLeastShare = std::size_t{64} << 10;
/// A larger one saves no more of that, while the slow link waits for the first segment and all for the last:
/// 16 MiB between two clusters of two ranks took 5 % longer with shares of twice that size.
constexpr std::size_t kMostShare = std::size_t{128} << 10;

class TwoLevel {
 public:
  TwoLevel(const RankMap& ranks, const Problem& problem, const Tuning& tuning, bool in_place)
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
    const std::size_t segment_bytes =
        part_of({0, problem.count}, 0, segments_).count() * problem.element_bytes;
    share_bytes_ = segment_bytes / members().size() + problem.element_bytes;
    encoded_share_bytes_ = encoded(share_bytes_);
  }

  Schedule build() {
    ScratchRing inside(builder_, members().size() > 1 ? share_bytes_ : 0, 3 * (members().size() - 1));
    const std::size_t others = ranks_.clusters.size() - 1;
    // Encoded, a cut is in memory both as it goes and as it comes.
    ScratchRing across(builder_, others > 0 ? encoded_share_bytes_ : 0,
                       (compressed() ? 2 : 1) * (others > 0 ? 2 * kLag : 0));
    for (std::size_t segment = 0; segment < segments_ + kLag; ++segment) {
      if (segment < segments_) {
        const Interval whole = part_of({0, problem_.count}, segment, segments_);
        const Piece source = reduce_inside(whole, inside);
        exchange(whole, source, across);
      }
      if (segment >= kLag) gather_inside(part_of({0, problem_.count}, segment - kLag, segments_));
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
  /// The other members, starting after this one, so that not all send to the same one first.
  int member_after(std::size_t distance) const {
    return static_cast<int>((static_cast<std::size_t>(ranks_.index) + distance) % members().size());
  }
  Interval share(Interval segment, int member) const {
    return part_of(segment, static_cast<std::size_t>(member), members().size());
  }

  /// Combines this rank's share of the segment over its cluster. Returns a piece behind which the sums lie:
  /// that of the vector's element i is i elements after it.
  Piece reduce_inside(Interval segment, ScratchRing& slots) {
    const Interval own = share(segment, ranks_.index);
    for (std::size_t distance = 1; distance < members().size(); ++distance) {
      const int to = member_after(distance);
      const Interval theirs = share(segment, to);
      builder_.send(members()[static_cast<std::size_t>(to)], input(theirs.begin), bytes(theirs));
    }
    Piece partial{Buffer::kInput, 0};
    // In a fixed order, so that the bits do not depend on who arrives first.
    for (std::size_t distance = members().size() - 1; distance >= 1; --distance) {
      const int from = member_after(distance);
      const Piece arrived = slots.next();
      builder_.receive(members()[static_cast<std::size_t>(from)], arrived, bytes(own));
      builder_.combine(output(own.begin), partial + own.begin * problem_.element_bytes, arrived, bytes(own));
      partial = {Buffer::kOutput, 0};
    }
    return partial;
  }

  /// Cuts this rank's share at every cluster's borders; each cut has one owner per cluster, and those
  /// exchange.
  void exchange(Interval segment, Piece source, ScratchRing& slots) {
    const Interval own = share(segment, ranks_.index);
    std::set<std::size_t> borders{own.begin, own.end};
    for (const auto& cluster : ranks_.clusters) {
      for (std::size_t member = 0; member < cluster.size(); ++member) {
        const std::size_t border = part_of(segment, member, cluster.size()).begin;
        if (border > own.begin && border < own.end) borders.insert(border);
      }
    }
    for (auto border = borders.begin(); std::next(border) != borders.end(); ++border) {
      const Interval cut{*border, *std::next(border)};
      std::vector<int> owners;
      for (const auto& cluster : ranks_.clusters) owners.push_back(owner_of(segment, cluster, cut.begin));
      if (owners.size() == 2) {
        compressed() ? swap_encoded(cut, owners, source, slots) : swap(cut, owners, source, slots);
      } else {
        compressed() ? ring_encoded(cut, owners, source, slots) : ring(cut, owners, source, slots);
      }
    }
  }

  static int owner_of(Interval segment, const std::vector<int>& cluster, std::size_t element) {
    for (std::size_t member = 0; member < cluster.size(); ++member) {
      const Interval part = part_of(segment, member, cluster.size());
      if (element >= part.begin && element < part.end) return cluster[member];
    }
    return -1;  // unreachable: the parts cover the segment
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

  void gather_inside(Interval segment) {
    const Interval own = share(segment, ranks_.index);
    for (std::size_t distance = 1; distance < members().size(); ++distance) {
      builder_.send(members()[static_cast<std::size_t>(member_after(distance))], output(own.begin),
                    bytes(own));
    }
    for (std::size_t distance = members().size() - 1; distance >= 1; --distance) {
      const int from = member_after(distance);
      const Interval theirs = share(segment, from);
      builder_.receive(members()[static_cast<std::size_t>(from)], output(theirs.begin), bytes(theirs));
    }
  }

  const RankMap& ranks_;
  const Problem& problem_;
  Compression compression_;  // between clusters
  ScheduleBuilder builder_;
  std::size_t segments_ = 1;
  std::size_t share_bytes_ = 0, encoded_share_bytes_ = 0;
};

bool two_level_all_reduce_applies(const RankMap& ranks, const Problem&, const Tuning&) {
  // Clusters are declared because what joins them is slower than what is inside. Where it is not slower, a
  // ring puts no more bytes on any NIC than two levels do.
  return ranks.clusters.size() > 1 && !ranks.uniform_links;
}

Schedule build_two_level_all_reduce(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                                    bool in_place) {
  return TwoLevel(ranks, problem, tuning, in_place).build();
}

}  // namespace

constinit const Algorithm kTwoLevelAllReduce{Collective::kAllReduce, "two-level",
                                             two_level_all_reduce_applies, build_two_level_all_reduce,
                                             "inside each cluster, then across"};

}  // namespace tombolo::collectives
