#include "collectives/schedule/algorithms/chain_reduce.h"

#include <algorithm>

#include "collectives/schedule/algorithms/root_chain.h"
#include "collectives/schedule/partition.h"

namespace tombolo::collectives {
namespace {

Schedule build_chain_reduce(const RankMap& ranks, const Problem& problem, const Tuning& tuning,
                            bool in_place) {
  ScheduleBuilder builder(problem, in_place);
  const std::vector<int> chain = chain_from(ranks, problem.root);
  const std::size_t n = chain.size(), p = position_in(chain, ranks.rank), element = problem.element_bytes;
  const Piece input{Buffer::kInput, 0}, output{Buffer::kOutput, 0};
  if (n == 1) {
    builder.copy(output, input, problem.bytes());
    return builder.build(kChainReduce.name);
  }
  const std::size_t pieces = pieces_of(problem.count, element, tuning.segment_bytes);
  ScratchRing slots(builder, part_of({0, problem.count}, 0, pieces).count() * element,
                    std::min<std::size_t>(8, pieces));
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const Interval part = part_of({0, problem.count}, piece, pieces);
    const std::size_t at = part.begin * element, size = part.count() * element;
    Piece partial = input + at;
    if (p + 1 < n) {
      const Piece arrived = slots.next();
      builder.receive(chain[p + 1], arrived, size);
      const Piece target = p == 0 ? output + at : arrived;
      builder.combine(target, partial, arrived, size);
      partial = target;
    }
    if (p > 0) builder.send(chain[p - 1], partial, size);
    if (p == 0 && problem.average) builder.divide(output + at, size);
  }
  return builder.build(kChainReduce.name);
}

Nanoseconds cost_of_chain_reduce(const JobCosts& job, const Problem& problem, const Tuning& tuning) {
  return cost_of_chain(job, problem, tuning, true);
}

}  // namespace

constinit const Algorithm kChainReduce{.collective = Collective::kReduce,
                                       .name = "chain",
                                       .applicable = always,
                                       .build = build_chain_reduce,
                                       .help = "along a chain, in pieces",
                                       .in_pieces = true,
                                       .cost = cost_of_chain_reduce};

}  // namespace tombolo::collectives
