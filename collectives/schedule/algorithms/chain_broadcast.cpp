#include "collectives/schedule/algorithms/chain_broadcast.h"

#include "collectives/schedule/algorithms/root_chain.h"
#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

Schedule build_chain_broadcast(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                               bool in_place) {
  ScheduleBuilder builder(problem, in_place);
  const std::vector<int> chain = chain_from(ranks, problem.root);
  const std::size_t n = chain.size(), p = position_in(chain, ranks.rank);
  const Piece output{Buffer::kOutput, 0};
  const Piece source = p == 0 ? Piece{Buffer::kInput, 0} : output;
  if (p == 0) builder.copy(output, source, problem.bytes());
  const std::size_t pieces = pieces_of(problem.count, problem.element_bytes, tuning.segment_bytes);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const Interval part = part_of({0, problem.count}, piece, pieces);
    const std::size_t at = part.begin * problem.element_bytes, size = part.count() * problem.element_bytes;
    if (p > 0) builder.receive(chain[p - 1], output + at, size);
    if (p + 1 < n) builder.send(chain[p + 1], source + at, size);
  }
  return builder.build(kChainBroadcast.name);
}

Nanoseconds cost_of_chain_broadcast(const JobCosts& job, const Problem& problem, const Tuning& tuning) {
  return cost_of_chain(job, problem, tuning, false);
}

}  // namespace

constinit const Algorithm kChainBroadcast{.collective = Collective::kBroadcast,
                                          .name = "chain",
                                          .applicable = always,
                                          .build = build_chain_broadcast,
                                          .help = "along a chain, in pieces",
                                          .in_pieces = true,
                                          .cost = cost_of_chain_broadcast};

}  // namespace tombolo::collectives
