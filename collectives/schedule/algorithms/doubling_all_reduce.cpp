#include "collectives/schedule/algorithms/doubling_all_reduce.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "collectives/schedule/algorithms/two_level/relays.h"

namespace tombolo::collectives {
namespace {

/// Between two ranks doubling moves no more bytes than a ring, in half as many steps.
std::size_t most_bytes(const RankMap& ranks, const Tuning& tuning) {
  return ranks.size == 2 ? 4 * tuning.small_bytes : few_for_each(ranks, tuning);
}

bool doubling_all_reduce_applies(const RankMap& ranks, const Problem& problem, const Tuning& tuning) {
  return problem.bytes() <= most_bytes(ranks, tuning);
}

std::string doubling_all_reduce_rule(const RankMap& ranks, const Tuning& tuning) {
  return fmt::format("vectors of at most {}", format_size(most_bytes(ranks, tuning)));
}

/// Both sides of an exchange combine in the order of positions: the same operands in the same order give the
/// same bits.
class DoublingSum {
 public:
  DoublingSum(const Problem& problem, bool in_place) : builder_(problem, in_place), bytes_(problem.bytes()) {}

  Schedule build(const RankMap& ranks, const Problem& problem) {
    if (relays_save(ranks)) {
      sum_over(ranks.clusters[static_cast<std::size_t>(ranks.cluster)],
               static_cast<std::size_t>(ranks.index));
      exchange(ranks);
    } else {
      sum_over(ranks.order, static_cast<std::size_t>(ranks.position));
    }
    const Piece output{Buffer::kOutput, 0};
    builder_.copy(output, sum_, bytes_);
    if (problem.average && ranks.size > 1) builder_.divide(output, bytes_);
    return builder_.build(kDoublingAllReduce.name);
  }

 private:
  /// Each result goes to a new place: the send of the old one need not have ended.
  void combine(Piece left, Piece right) {
    sum_ = builder_.scratch(bytes_);
    builder_.combine(sum_, left, right, bytes_);
  }
  Piece receive(int peer) {
    const Piece arrived = builder_.scratch(bytes_);
    builder_.receive(peer, arrived, bytes_);
    return arrived;
  }

  /// Recursive doubling over some ranks, of which this one is at position `p`.
  void sum_over(const std::vector<int>& ranks, std::size_t p) {
    std::size_t power = 1;
    while (power * 2 <= ranks.size()) power *= 2;
    // The first 2 * rest positions combine in pairs beforehand, so that a power of two ranks remains.
    const std::size_t rest = ranks.size() - power;
    const bool folded = p < 2 * rest;
    if (folded && p % 2 == 0) {
      builder_.send(ranks[p + 1], sum_, bytes_);
      sum_ = receive(ranks[p + 1]);
      return;
    }
    if (folded) combine(receive(ranks[p - 1]), sum_);
    const std::size_t own = folded ? p / 2 : p - rest;
    for (std::size_t distance = 1; distance < power; distance *= 2) {
      const std::size_t other = own ^ distance;
      const int peer = ranks[other < rest ? 2 * other + 1 : other + rest];
      builder_.send(peer, sum_, bytes_);
      const Piece arrived = receive(peer);
      other < own ? combine(arrived, sum_) : combine(sum_, arrived);
    }
    if (folded) builder_.send(ranks[p - 1], sum_, bytes_);
  }

  /// Sums up the clusters' sums, in the order of clusters.
  void exchange(const RankMap& ranks) {
    const Relays relays(ranks);
    const std::vector<int> served = relays.served_by(relays.index());
    if (sum_.buffer == Buffer::kInput && served.size() > 1) {  // else each send would multiply it anew
      const Piece once = builder_.scratch(bytes_);
      builder_.copy(once, sum_, bytes_);
      sum_ = once;
    }
    for (const int rank : served) builder_.send(rank, sum_, bytes_);
    std::vector<Piece> sums(ranks.clusters.size(), sum_);
    for (const Relays::Other& other : relays.heard()) sums[other.cluster] = receive(other.relay);
    sum_ = sums[0];
    for (std::size_t i = 1; i < sums.size(); ++i) combine(sum_, sums[i]);
  }

  ScheduleBuilder builder_;
  std::size_t bytes_;
  Piece sum_{Buffer::kInput, 0};  // of the ranks that were heard so far
};

Schedule build_doubling_all_reduce(const RankMap& ranks, const Problem& problem, const Tuning&,
                                   bool in_place) {
  return DoublingSum(problem, in_place).build(ranks, problem);
}

Nanoseconds cost_of_doubling_all_reduce(const JobCosts& job, const Problem& problem, const Tuning&) {
  const std::uint64_t bytes = problem.bytes();
  const Nanoseconds sum = job.memory(bytes);
  if (job.clusters() > 1 && job.largest() == 1) {
    const std::uint64_t rounds = tree_rounds(job.ranks());
    const bool folds = !std::has_single_bit(job.ranks());
    return (rounds + (folds ? 1 : 0)) * (job.hop(Level::kBetween, bytes) + sum);
  }
  const std::uint64_t ranks = job.largest(), power = std::bit_floor(ranks);
  Nanoseconds cost = job.rounds(tree_rounds(power), bytes, sum) + sum;
  if (power < ranks) cost += 2 * job.rounds(1, bytes) + sum;  // before and after
  if (job.clusters() == 1) return cost;
  const std::uint64_t others = job.ranks() - job.smallest(), served = others / job.smallest();
  const std::uint64_t crossing = std::max(others, job.largest() * (job.clusters() - 1));
  return cost + job.hop(Level::kBetween, crossing * bytes) + job.messages(served) +
         (job.clusters() - 1) * (job.messages(1) + sum);
}

}  // namespace

constinit const Algorithm kDoublingAllReduce{.collective = Collective::kAllReduce,
                                             .name = "doubling",
                                             .applicable = doubling_all_reduce_applies,
                                             .build = build_doubling_all_reduce,
                                             .help = "by recursive doubling",
                                             .rule = doubling_all_reduce_rule,
                                             .cost = cost_of_doubling_all_reduce};

}  // namespace tombolo::collectives
