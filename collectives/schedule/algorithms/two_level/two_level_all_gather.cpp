#include "collectives/schedule/algorithms/two_level/two_level_all_gather.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/schedule/algorithms/two_level/cluster_shares.h"

namespace tombolo::collectives {
namespace {

class TwoLevelGather {
 public:
  TwoLevelGather(const RankMap& ranks, const Problem& problem, const Tuning& tuning, bool in_place)
      : ranks_(ranks),
        problem_(problem),
        shares_(ranks, problem, tuning),
        builder_(problem, in_place,
                 static_cast<std::ptrdiff_t>(problem.offset_of(ranks.rank) * problem.element_bytes)) {}

  Schedule build() {
    builder_.copy(output(ranks_.rank, 0), own(0), problem_.bytes());
    for (std::size_t piece = 0; piece < shares_.pieces(); ++piece)
      for (std::size_t distance = 1; distance < ranks_.clusters.size(); ++distance)
        cross(piece, (cluster() + distance) % ranks_.clusters.size());
    go_around();
    return builder_.build(kTwoLevelAllGather.name);
  }

 private:
  /// What goes around the cluster at once: something of each member's.
  struct Round {
    std::size_t piece = 0;
    int rank = -1;  ///< whose part the members got shares of; -1: the members' own parts
  };
  using Item = ClusterShares::Item;

  std::size_t cluster() const noexcept { return static_cast<std::size_t>(ranks_.cluster); }
  std::size_t index() const noexcept { return static_cast<std::size_t>(ranks_.index); }
  const std::vector<int>& members() const { return ranks_.clusters[cluster()]; }
  std::size_t bytes(Interval elements) const noexcept { return elements.count() * problem_.element_bytes; }
  Piece own(std::size_t element) const noexcept {
    return Piece{Buffer::kInput, 0} + element * problem_.element_bytes;
  }
  Piece output(int rank, std::size_t element) const noexcept {
    return Piece{Buffer::kOutput, 0} + (problem_.offset_of(rank) + element) * problem_.element_bytes;
  }

  /// Deals the own piece to the members of another cluster, and takes the own shares of theirs.
  void cross(std::size_t piece, std::size_t other) {
    const std::vector<int>& theirs = ranks_.clusters[other];
    for (std::size_t turn = 0; turn < theirs.size(); ++turn) {
      const std::size_t member = (index() + turn) % theirs.size();
      const Interval share = shares_.share(ranks_.rank, piece, other, member);
      builder_.send(theirs[member], own(share.begin), bytes(share));
    }
    for (const int rank : theirs) {
      const Interval share = shares_.share(rank, piece, cluster(), index());
      builder_.receive(rank, output(rank, share.begin), bytes(share));
    }
  }

  /// What of a round the member had first.
  Item item(const Round& round, std::size_t member) const {
    return shares_.item(round.piece, round.rank, member);
  }

  /// The own parts go around first, since they wait for nobody; then what crossed, in the order in which it
  /// comes.
  void go_around() {
    const std::size_t clusters = ranks_.clusters.size();
    std::vector<Round> own, crossed;
    for (std::size_t piece = 0; piece < shares_.pieces(); ++piece) {
      own.push_back({piece, -1});
      for (std::size_t distance = 1; distance < clusters; ++distance)
        for (const int rank : shares_.from_last_to_first((cluster() + clusters - distance) % clusters))
          crossed.push_back({piece, rank});
    }
    go_around(own);
    go_around(crossed);
  }

  /// A ring inside the cluster. A round begins while those before it go on, each one step further: so none
  /// waits behind the last step of another.
  void go_around(const std::vector<Round>& rounds) {
    const std::size_t m = members().size();
    if (m == 1 || rounds.empty()) return;
    const int next = members()[(index() + 1) % m], previous = members()[(index() + m - 1) % m];
    for (std::size_t wave = 0; wave < rounds.size() + m - 2; ++wave) {
      for (std::size_t step = 0; step < m - 1 && step <= wave; ++step) {
        if (wave - step >= rounds.size()) continue;
        const Round& round = rounds[wave - step];
        const Item out = item(round, (index() + m - step) % m);
        builder_.send(next, output(out.rank, out.elements.begin), bytes(out.elements));
        const Item in = item(round, (index() + m - step - 1) % m);
        builder_.receive(previous, output(in.rank, in.elements.begin), bytes(in.elements));
      }
    }
  }

  const RankMap& ranks_;
  const Problem& problem_;
  ClusterShares shares_;
  ScheduleBuilder builder_;
};

Schedule build_two_level_all_gather(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                                    bool in_place) {
  return TwoLevelGather(ranks, problem, tuning, in_place).build();
}

Nanoseconds cost_of_two_level_all_gather(const JobCosts& job, const Problem& problem, const Tuning& tuning) {
  const std::uint64_t part = problem.bytes_of_all(static_cast<int>(job.ranks())) / job.ranks();
  const std::uint64_t crossing =
      std::max(job.ranks() - job.smallest(), (job.clusters() - 1) * job.largest()) * part;
  return cost_of_shares(job, part, crossing, 0, tuning);
}

}  // namespace

constinit const Algorithm kTwoLevelAllGather{.collective = Collective::kAllGather,
                                             .name = "two-level",
                                             .applicable = clusters_are_far,
                                             .build = build_two_level_all_gather,
                                             .help = "across, then inside each cluster",
                                             .rule = where_clusters_are_far,
                                             .in_pieces = true,
                                             .cost = cost_of_two_level_all_gather};

}  // namespace tombolo::collectives
