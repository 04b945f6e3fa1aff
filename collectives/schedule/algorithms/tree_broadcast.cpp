#include "collectives/schedule/algorithms/tree_broadcast.h"

#include "collectives/schedule/algorithms/few_bytes.h"
#include "collectives/schedule/algorithms/root_chain.h"

namespace tombolo::collectives {
namespace {

bool tree_broadcast_applies(const RankMap&, const Problem& problem, const Tuning& tuning) {
  return problem.bytes() <= tuning.small_bytes;
}

Schedule build_tree_broadcast(const RankMap& ranks, const Problem& problem, const Tuning&, bool in_place) {
  ScheduleBuilder builder(problem, in_place);
  const std::vector<int> chain = chain_from(ranks, problem.root);
  const std::size_t n = chain.size(), p = position_in(chain, ranks.rank), bytes = problem.bytes();
  const Piece output{Buffer::kOutput, 0};
  const Piece source = p == 0 ? Piece{Buffer::kInput, 0} : output;
  if (p == 0) builder.copy(output, source, bytes);
  // The parent of position p is p without its highest bit.
  std::size_t bit = 1;
  while (bit <= p) bit *= 2;
  if (p > 0) builder.receive(chain[p - bit / 2], output, bytes);
  for (; p + bit < n; bit *= 2) builder.send(chain[p + bit], source, bytes);
  return builder.build(kTreeBroadcast.name);
}

}  // namespace

constinit const Algorithm kTreeBroadcast{.collective = Collective::kBroadcast,
                                         .name = "tree",
                                         .applicable = tree_broadcast_applies,
                                         .build = build_tree_broadcast,
                                         .rule = few_bytes};

}  // namespace tombolo::collectives
