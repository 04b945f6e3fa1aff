#include "collectives/schedule/algorithms/two_level/two_level_reduce_scatter.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/schedule/algorithms/two_level/cluster_shares.h"

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
        builder_(problem, in_place,
                 -static_cast<std::ptrdiff_t>(problem.offset_of(ranks.rank) * problem.element_bytes)),
        rounds_(rounds()),
        // What arrives in a wave leaves in the next.
        partials_(builder_, members().size() > 1 ? shares_.longest_piece() * problem.element_bytes : 0,
                  2 * most_of_a_wave()),
        going_(builder_, members().size() > 1 && others() > 0 ? longest_share_bytes() : 0,
               sums_of_a_piece() + kSpareSums),
        coming_(builder_, others() > 0 ? longest_share_bytes() : 0, shares_from_others() + kSpareSums) {}

  Schedule build() {
    const std::size_t steps = members().size() - 1;
    for (std::size_t wave = 0; wave < rounds_.size() + steps; ++wave) {
      for_each_in(wave, [&](Round& round, std::size_t step) { go_on(round, step); });
      if (wave >= steps) finish(rounds_[wave - steps]);
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
  using Item = ClusterShares::Item;

  std::size_t cluster() const noexcept { return static_cast<std::size_t>(ranks_.cluster); }
  std::size_t index() const noexcept { return static_cast<std::size_t>(ranks_.index); }
  const std::vector<int>& members() const { return ranks_.clusters[cluster()]; }
  std::size_t others() const { return static_cast<std::size_t>(ranks_.size) - members().size(); }
  std::size_t bytes(Interval elements) const noexcept { return elements.count() * problem_.element_bytes; }
  /// How many sums of a piece this rank sends to other clusters, at most.
  std::size_t sums_of_a_piece() const {
    std::size_t most = 0;
    for (std::size_t piece = 0; piece < shares_.pieces(); ++piece) {
      std::size_t sums = 0;
      for (std::size_t other = 0; other < ranks_.clusters.size(); ++other)
        for (const int rank : ranks_.clusters[other])
          sums += other != cluster() && item({piece, rank, {}}, index()).elements.count() > 0 ? 1 : 0;
      most = std::max(most, sums);
    }
    return most;
  }
  /// How many sums of a piece this rank gets from other clusters, at most.
  std::size_t shares_from_others() const {
    std::size_t all = 0;
    for (std::size_t other = 0; other < ranks_.clusters.size(); ++other)
      all += other == cluster() ? 0 : shares_.most_shares(other);
    return all;
  }
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
    return shares_.item(round.piece, round.rank, member);
  }

  std::vector<Round> rounds() const {
    std::vector<Round> all;
    for (std::size_t piece = 0; piece < shares_.pieces(); ++piece) {
      // What feeds the slow link comes first.
      for (std::size_t distance = 1; distance < ranks_.clusters.size(); ++distance)
        for (const int rank : shares_.from_last_to_first((cluster() + distance) % ranks_.clusters.size()))
          all.push_back({piece, rank, {}});
      all.push_back({piece, -1, {}});
    }
    return all;
  }

  /// The steps of a wave: a round begins while those before it go on, each one step further. So none waits
  /// behind the last step of another.
  template <typename Action>
  void for_each_in(std::size_t wave, const Action& action) {
    for (std::size_t step = 0; step + 1 < members().size() && step <= wave; ++step)
      if (wave - step < rounds_.size()) action(rounds_[wave - step], step);
  }
  /// Whose sum arrives at this rank in that step.
  Item coming(const Round& round, std::size_t step) const {
    const std::size_t m = members().size();
    return item(round, (index() + 2 * m - step - 2) % m);
  }
  /// How many sums arrive in one wave, at most.
  std::size_t most_of_a_wave() {
    std::size_t most = 0;
    for (std::size_t wave = 0; wave < rounds_.size() + members().size(); ++wave) {
      std::size_t sums = 0;
      for_each_in(wave, [&](const Round& round, std::size_t step) {
        sums += coming(round, step).elements.count() > 0 ? 1 : 0;
      });
      most = std::max(most, sums);
    }
    return most;
  }

  /// One step of the ring inside the cluster.
  void go_on(Round& round, std::size_t step) {
    const std::size_t m = members().size();
    const Item out = item(round, (index() + 2 * m - step - 1) % m), in = coming(round, step);
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
  std::vector<Round> rounds_;
  ScratchRing partials_, going_, coming_;
};

Schedule build_two_level_reduce_scatter(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                                        bool in_place) {
  return TwoLevelScatter(ranks, problem, tuning, in_place).build();
}

Nanoseconds cost_of_two_level_reduce_scatter(const JobCosts& job, const Problem& problem,
                                             const Tuning& tuning) {
  const std::uint64_t part = problem.bytes_of_all(static_cast<int>(job.ranks())) / job.ranks();
  return cost_of_shares(job, part, (job.ranks() - job.smallest()) * part, job.memory(job.ranks() * part),
                        tuning);
}

}  // namespace

constinit const Algorithm kTwoLevelReduceScatter{.collective = Collective::kReduceScatter,
                                                 .name = "two-level",
                                                 .applicable = clusters_are_far,
                                                 .build = build_two_level_reduce_scatter,
                                                 .help = "inside each cluster, then across",
                                                 .rule = where_clusters_are_far,
                                                 .in_pieces = true,
                                                 .cost = cost_of_two_level_reduce_scatter};

}  // namespace tombolo::collectives
