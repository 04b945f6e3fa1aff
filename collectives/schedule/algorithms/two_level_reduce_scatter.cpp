#include "collectives/schedule/algorithms/two_level_reduce_scatter.h"

#include <algorithm>
#include <vector>

#include "collectives/schedule/algorithms/cluster_shares.h"

namespace tombolo::collectives {
namespace {

/// So many sums beyond those of one piece may wait for the slow link, or for the own cluster's sum. Those of
/// one piece must all find a place: the own cluster's sum comes after them.
constexpr std::size_t kSpareSums = 8;

class TwoLevelScatter {
 public:
  TwoLevelScatter(const RankMap& ranks, const Problem& problem, const Tuning& tuning, bool in_place)
      : ranks_(ranks),
        problem_(problem),
        shares_(ranks, problem, tuning),
        builder_(in_place,
                 -static_cast<std::ptrdiff_t>(problem.offset_of(ranks.rank) * problem.element_bytes)),
        partials_(builder_, members().size() > 1 ? shares_.longest_piece() * problem.element_bytes : 0,
                  2 * members().size()),
        // A piece has one sum for each rank of the others, and one from each of them, at most.
        going_(builder_, members().size() > 1 && others() > 0 ? longest_share_bytes() : 0,
               others() + kSpareSums),
        coming_(builder_, others() > 0 ? longest_share_bytes() : 0, others() + kSpareSums) {}

  Schedule build() {
    std::vector<Round> rounds;
    for (std::size_t piece = 0; piece < shares_.pieces(); ++piece) {
      // What feeds the slow link comes first.
      for (std::size_t distance = 1; distance < ranks_.clusters.size(); ++distance)
        for (const int rank : ranks_.clusters[(cluster() + distance) % ranks_.clusters.size()])
          rounds.push_back({piece, rank, {}});
      rounds.push_back({piece, -1, {}});
    }
    const std::size_t steps = members().size() - 1;
    // A round begins while those before it go on, each one step further: so none waits behind the last step
    // of another.
    for (std::size_t wave = 0; wave < rounds.size() + steps; ++wave) {
      for (std::size_t step = 0; step < steps && step <= wave; ++step)
        if (wave - step < rounds.size()) go_on(rounds[wave - step], step);
      if (wave >= steps) finish(rounds[wave - steps]);
    }
    return builder_.build(kTwoLevelReduceScatter.name);
  }

 private:
  /// What goes around the cluster at once: for each member, something of which it gets the sum.
  struct Round {
    std::size_t piece = 0;
    int rank = -1;  ///< whose part the members sum up shares of; -1: the members' own parts
    Piece partial;  ///< the sum that is on its way at this rank
  };
  struct Item {
    int rank;
    Interval elements;
  };

  std::size_t cluster() const noexcept { return static_cast<std::size_t>(ranks_.cluster); }
  std::size_t index() const noexcept { return static_cast<std::size_t>(ranks_.index); }
  const std::vector<int>& members() const { return ranks_.clusters[cluster()]; }
  std::size_t others() const { return static_cast<std::size_t>(ranks_.size) - members().size(); }
  std::size_t bytes(Interval elements) const noexcept { return elements.count() * problem_.element_bytes; }
  std::size_t longest_share_bytes() const noexcept {
    return shares_.longest_share() * problem_.element_bytes;
  }
  Piece input(const Item& item) const noexcept {
    return Piece{Buffer::kInput, 0} +
           (problem_.offset_of(item.rank) + item.elements.begin) * problem_.element_bytes;
  }
  Piece output(std::size_t element) const noexcept {
    return Piece{Buffer::kOutput, 0} + element * problem_.element_bytes;
  }

  /// What of a round the member gets the sum of.
  Item item(const Round& round, std::size_t member) const {
    if (round.rank < 0) return {members()[member], shares_.piece(members()[member], round.piece)};
    return {round.rank, shares_.share(round.rank, round.piece, cluster(), member)};
  }

  /// One step of the ring inside the cluster.
  void go_on(Round& round, std::size_t step) {
    const std::size_t m = members().size();
    const Item out = item(round, (index() + 2 * m - step - 1) % m),
               in = item(round, (index() + 2 * m - step - 2) % m);
    builder_.send(members()[(index() + 1) % m], step == 0 ? input(out) : round.partial, bytes(out.elements));
    if (in.elements.count() == 0) return;
    const Piece arrived = partials_.next();
    builder_.receive(members()[(index() + m - 1) % m], arrived, bytes(in.elements));
    round.partial = step + 2 < m ? arrived : round.rank >= 0 ? going_.next() : output(in.elements.begin);
    builder_.combine(round.partial, arrived, input(in), bytes(in.elements));
  }

  /// The cluster's sums are complete.
  void finish(const Round& round) {
    const Item whole = item(round, index());
    if (round.rank >= 0) {
      builder_.send(round.rank, members().size() == 1 ? input(whole) : round.partial, bytes(whole.elements));
      return;
    }
    if (members().size() == 1)
      builder_.copy(output(whole.elements.begin), input(whole), bytes(whole.elements));
    // In a fixed order, so that the bits do not depend on who arrives first.
    for (std::size_t other = 0; other < ranks_.clusters.size(); ++other) {
      if (other == cluster()) continue;
      for (std::size_t member = 0; member < ranks_.clusters[other].size(); ++member) {
        const Interval share = shares_.share(ranks_.rank, round.piece, other, member);
        if (share.count() == 0) continue;
        const Piece arrived = coming_.next();
        builder_.receive(ranks_.clusters[other][member], arrived, bytes(share));
        builder_.combine(output(share.begin), output(share.begin), arrived, bytes(share));
      }
    }
    if (problem_.average && whole.elements.count() > 0)
      builder_.divide(output(whole.elements.begin), bytes(whole.elements));
  }

  const RankMap& ranks_;
  const Problem& problem_;
  ClusterShares shares_;
  ScheduleBuilder builder_;
  ScratchRing partials_, going_, coming_;
};

bool two_level_reduce_scatter_applies(const RankMap& ranks, const Problem&, const Tuning&) {
  return ranks.clusters.size() > 1 && !ranks.uniform_links;
}

Schedule build_two_level_reduce_scatter(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                                        bool in_place) {
  return TwoLevelScatter(ranks, problem, tuning, in_place).build();
}

}  // namespace

constinit const Algorithm kTwoLevelReduceScatter{
    Collective::kReduceScatter, "two-level", two_level_reduce_scatter_applies, build_two_level_reduce_scatter,
    "inside each cluster, then across"};

}  // namespace tombolo::collectives
