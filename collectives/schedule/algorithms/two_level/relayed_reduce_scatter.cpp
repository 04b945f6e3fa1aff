#include "collectives/schedule/algorithms/two_level/relayed_reduce_scatter.h"

#include <cstdint>
#include <vector>

#include "collectives/schedule/algorithms/two_level/packed_parts.h"
#include "collectives/schedule/algorithms/two_level/relays.h"

namespace tombolo::collectives {
namespace {

bool relayed_reduce_scatter_applies(const RankMap& ranks, const Problem& problem, const Tuning& tuning) {
  return relays_save(ranks) && problem.bytes_of_all(ranks.size) <= tuning.small_bytes;
}

std::string relayed_reduce_scatter_rule(const RankMap&, const Tuning& tuning) {
  return where_relays_save(tuning.small_bytes);
}

class RelayedSums {
 public:
  RelayedSums(const RankMap& ranks, const Problem& problem, bool in_place)
      : ranks_(ranks),
        problem_(problem),
        relays_(ranks),
        builder_(problem, in_place,
                 -static_cast<std::ptrdiff_t>(problem.offset_of(ranks.rank) * problem.element_bytes)) {}

  Schedule build() {
    const std::vector<int>& members = relays_.members();
    for (std::size_t turn = 1; turn < members.size(); ++turn) {
      const std::size_t mate = (relays_.index() + turn) % members.size();
      const Part packed = pack(builder_, inputs(summed_by(mate)));
      builder_.send(members[mate], packed.piece, packed.bytes);
    }
    const std::vector<int> mine = summed_by(relays_.index());
    const std::size_t bytes = bytes_of(inputs(mine));
    const Piece sums = own_terms(mine, bytes);
    for (std::size_t turn = 1; turn < members.size(); ++turn) {
      const int mate = members[(relays_.index() + members.size() - turn) % members.size()];
      const Piece arrived = builder_.scratch(bytes);
      builder_.receive(mate, arrived, bytes);
      builder_.combine(sums, sums, arrived, bytes);
    }
    send_and_finish(mine, sums);
    return builder_.build(kRelayedReduceScatter.name);
  }

 private:
  std::size_t bytes(int rank) const noexcept { return problem_.count_of(rank) * problem_.element_bytes; }
  std::vector<Part> inputs(const std::vector<int>& some) const {
    std::vector<Part> parts;
    for (const int rank : some)
      parts.push_back(
          {Piece{Buffer::kInput, 0} + problem_.offset_of(rank) * problem_.element_bytes, bytes(rank)});
    return parts;
  }

  /// The ranks whose part this member sums up for the cluster: its own first.
  std::vector<int> summed_by(std::size_t member) const {
    std::vector<int> some = relays_.served_by(member);
    some.insert(some.begin(), relays_.members()[member]);
    return some;
  }

  /// This rank's terms of these sums, in scratch.
  Piece own_terms(const std::vector<int>& some, std::size_t all) {
    const Piece terms = builder_.scratch(all);
    std::size_t at = 0;
    for (const Part& part : inputs(some)) {
      builder_.copy(terms + at, part.piece, part.bytes);
      at += part.bytes;
    }
    return terms;
  }

  void send_and_finish(const std::vector<int>& mine, Piece sums) {
    const std::size_t own = bytes(ranks_.rank);
    Piece next = sums + own;
    for (std::size_t i = 1; i < mine.size(); ++i) {
      builder_.send(mine[i], next, bytes(mine[i]));
      next = next + bytes(mine[i]);
    }
    const Piece output{Buffer::kOutput, 0};
    Piece partial = sums;
    for (const Relays::Other& other : relays_.heard()) {
      const Piece arrived = builder_.scratch(own);
      builder_.receive(other.relay, arrived, own);
      builder_.combine(output, partial, arrived, own);
      partial = output;
    }
    builder_.copy(output, partial, own);
    if (problem_.average && ranks_.size > 1) builder_.divide(output, own);
  }

  const RankMap& ranks_;
  const Problem& problem_;
  Relays relays_;
  ScheduleBuilder builder_;
};

Schedule build_relayed_reduce_scatter(const RankMap& ranks, const Problem& problem, const Tuning&,
                                      bool in_place) {
  return RelayedSums(ranks, problem, in_place).build();
}

Nanoseconds cost_of_relayed_reduce_scatter(const JobCosts& job, const Problem& problem, const Tuning&) {
  const std::uint64_t part = problem.bytes_of_all(static_cast<int>(job.ranks())) / job.ranks();
  const RelayCosts relays(job);
  return relays.inside((1 + relays.served()) * part) + relays.across(part) +
         job.memory(2 * job.ranks() * part);
}

}  // namespace

constinit const Algorithm kRelayedReduceScatter{.collective = Collective::kReduceScatter,
                                                .name = "relayed",
                                                .applicable = relayed_reduce_scatter_applies,
                                                .build = build_relayed_reduce_scatter,
                                                .help = "through one member of each cluster",
                                                .rule = relayed_reduce_scatter_rule,
                                                .possible = relays_may_save,
                                                .cost = cost_of_relayed_reduce_scatter};

}  // namespace tombolo::collectives
